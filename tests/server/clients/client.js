// Node's pg: what test_node.py expects is printed as JSON. The address is in the environment.
const fs = require('fs');
const { Client } = require('pg');

async function main() {
  const client = new Client({ ssl: { ca: fs.readFileSync(process.env.PGSSLROOTCERT) } });
  await client.connect();
  const rows = async (query) => (await client.query(query)).rows;
  const found = {
    counties: await rows('SELECT county, label FROM counties ORDER BY county'),
    one: await rows({ text: 'SELECT label FROM counties WHERE county = $1', values: ['c2'] }),
    named: await rows({ name: 'kept', text: 'SELECT whole FROM kinds WHERE whole = $1', values: [2] }),
    list: await rows({ text: 'SELECT $1::INTEGER[] AS list', values: [[1, 2]] }),
    count: await rows(process.env.COUNT),
    tables: await rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1"),
    refused: await client.query(process.env.RECORDS).then(() => 'answered', (error) => error.code),
  };
  await client.end();
  console.log(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
