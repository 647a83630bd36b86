// The first ten minutes with Node's libraries: node node.js LIBRARY. The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD
// and PGDATABASE, the libraries in NODE_PATH. Prints one line of JSON for each step: its name, and the rows or the error.
const since = new Date('2024-02-01T00:00:00Z');
const { PGHOST: host, PGUSER: user, PGPASSWORD: password, PGDATABASE: database } = process.env;
const port = Number(process.env.PGPORT);
const url = `postgres://${user}:${password}@${host}:${port}/${database}`;

async function step(name, run) {
  try {
    const rows = await run();
    console.log(JSON.stringify({ step: name, rows: rows === undefined ? null : rows }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, error: String(error.message || error), code: error.code || (error.original || {}).code }));
  }
}

const programs = {
  async pg() {
    const { Client } = require('pg');
    const client = new Client({ host, port, user, password, database });
    await client.connect();
    const ask = (name, text, values) => step(name, async () => (await client.query(text, values)).rows);
    await ask('tables', "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1", ['main']);
    await ask('since', 'SELECT count(*)::int AS n FROM visits WHERE visit_ts >= $1', [since]);
    await ask('any', 'SELECT count(*)::int AS n FROM visits WHERE shop = ANY($1)', [[1, 2, 3]]);
    await ask('chart', "SELECT date_trunc('month', visit_ts) AS month, count(*)::int AS n FROM visits GROUP BY 1 ORDER BY 1", []);
    await ask('protected chart', 'SELECT county, count(*) AS n FROM persons GROUP BY county ORDER BY county', []);
    await step('cursor', async () => {
      const Cursor = require('pg-cursor');
      const cursor = client.query(new Cursor('SELECT * FROM visits ORDER BY visit'));
      const first = await cursor.read(10);
      await cursor.close();
      return first.length;
    });
    await client.end();
  },

  async postgres() {
    const postgres = require('postgres');
    const sql = postgres({ host, port, user, password, database, onnotice: () => {} });
    await step('tables', () => sql`select table_name from information_schema.tables where table_schema = ${'main'} order by 1`);
    await step('since', () => sql`select count(*)::int as n from visits where visit_ts >= ${since}`);
    await step('day', () => sql`select count(*)::int as n from visits where day = ${'2024-02-01'}`);
    await step('any', () => sql`select count(*)::int as n from visits where shop = any(${[1, 2, 3]})`);
    await step('in', () => sql`select count(*)::int as n from visits where shop in ${sql([1, 2, 3])}`);
    await step('chart', () => sql`select date_trunc('month', visit_ts) as month, count(*)::int as n from visits group by 1 order by 1`);
    await step('protected since', () => sql`select county, count(*) as n from persons where visit_ts >= ${since} group by county order by county`);
    await step('export', async () => {
      const stream = await sql`copy (select * from visits order by visit) to stdout`.readable();
      let size = 0;
      for await (const piece of stream) size += piece.length;
      return size > 0;
    });
    await step('cancel', async () => {
      const long = sql`select sum(a.visit * b.visit * c.visit) as n from visits a, visits b, visits c`;
      setTimeout(() => long.cancel(), 300);
      return await long.then(() => 'answered', (error) => error.code);
    });
    await sql.end();
  },

  async knex() {
    const knex = require('knex')({ client: 'pg', connection: { host, port, user, password, database } });
    await step('hasTable', () => knex.schema.hasTable('visits'));
    await step('columnInfo', () => knex('persons').columnInfo());
    await step('since', () => knex('visits').where('visit_ts', '>=', since).count({ n: '*' }));
    await step('whereBetween', () => knex('visits').whereBetween('day', ['2024-01-01', '2024-01-31']).count({ n: '*' }));
    await step('chart', () => knex('visits').select('shop').sum({ total: 'amount' }).groupBy('shop').orderBy('shop').limit(5));
    await step('transaction', () => knex.transaction((one) => one('counties').select('*').orderBy('county')));
    await step('protected chart', () => knex('persons').select('county').count({ n: '*' }).groupBy('county').orderBy('county'));
    await knex.destroy();
  },

  async drizzle() {
    const { drizzle } = require('drizzle-orm/node-postgres');
    const { pgSchema, bigint, integer, timestamp, text, date } = require('drizzle-orm/pg-core');
    const { gte, count, sql, inArray, desc } = require('drizzle-orm');
    const db = drizzle(url);
    const main = pgSchema('main');
    const visits = main.table('visits', {
      visit: bigint({ mode: 'number' }), shop: integer(), visitTs: timestamp('visit_ts'), day: date(),
    });
    const persons = main.table('persons', { county: text() });
    await step('browse', () => db.select().from(visits).orderBy(visits.visit).limit(3));
    await step('since', () => db.select({ n: count() }).from(visits).where(gte(visits.visitTs, since)));
    await step('in', () => db.select({ n: count() }).from(visits).where(inArray(visits.shop, [1, 2, 3])));
    await step('chart', () => db.select({ month: sql`date_trunc('month', ${visits.visitTs})`, n: count() }).from(visits)
      .groupBy(sql`1`).orderBy(sql`1`));
    await step('protected chart', () => db.select({ county: persons.county, n: count() }).from(persons)
      .groupBy(persons.county).orderBy(desc(count())));
    await db.$client.end();
  },

  async kysely() {
    const { Kysely, PostgresDialect } = require('kysely');
    const { Pool } = require('pg');
    const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool({ host, port, user, password, database }) }) });
    await step('introspection', async () => (await db.introspection.getTables()).map((one) => one.name).sort());
    await step('schemas', async () => (await db.introspection.getSchemas()).map((one) => one.name).sort());
    await step('since', () => db.selectFrom('visits').select((of) => of.fn.countAll().as('n')).where('visit_ts', '>=', since).execute());
    await db.destroy();
  },

  async typeorm() {
    require('reflect-metadata');
    const { DataSource, EntitySchema, MoreThanOrEqual, In } = require('typeorm');
    const Visit = new EntitySchema({
      name: 'Visit', tableName: 'visits', schema: 'main',
      columns: { visit: { type: 'bigint', primary: true }, shop: { type: 'int' }, visit_ts: { type: 'timestamp' }, day: { type: 'date' } },
    });
    const source = new DataSource({ type: 'postgres', host, port, username: user, password, database, entities: [Visit] });
    await step('connect', async () => { await source.initialize(); return true; });
    const visits = source.getRepository(Visit);
    await step('browse', () => visits.find({ take: 3, order: { visit: 'ASC' } }));
    await step('since', () => visits.count({ where: { visit_ts: MoreThanOrEqual(since) } }));
    await step('in', () => visits.countBy({ shop: In([1, 2, 3]) }));
    await step('chart', () => source.createQueryBuilder(Visit, 'v').select('v.shop', 'shop').addSelect('count(*)', 'n')
      .groupBy('v.shop').orderBy('v.shop').limit(3).getRawMany());
    await step('getTables', async () => (await source.createQueryRunner().getTables()).map((one) => one.name).sort());
    await source.destroy();
  },

  async sequelize() {
    const { Sequelize, DataTypes, Op, fn, col } = require('sequelize');
    const db = new Sequelize(url, { logging: false, schema: 'main' });
    await step('connect', async () => { await db.authenticate(); return true; });
    const made = { timestamps: false, freezeTableName: true, schema: 'main' };
    const Visit = db.define('visits', {
      visit: { type: DataTypes.BIGINT, primaryKey: true }, shop: DataTypes.INTEGER, visit_ts: DataTypes.DATE, day: DataTypes.DATEONLY,
    }, made);
    const Person = db.define('persons', { county: DataTypes.STRING }, made);
    await step('showAllTables', () => db.getQueryInterface().showAllTables());
    await step('describeTable', () => db.getQueryInterface().describeTable('persons', { schema: 'main' }));
    await step('showIndex', () => db.getQueryInterface().showIndex({ tableName: 'visits', schema: 'main' }));
    await step('browse', () => Visit.findAll({ limit: 3, order: ['visit'] }));
    await step('since', () => Visit.count({ where: { visit_ts: { [Op.gte]: since } } }));
    await step('between', () => Visit.count({ where: { day: { [Op.between]: ['2024-01-01', '2024-01-31'] } } }));
    await step('any', () => Visit.count({ where: { shop: [1, 2, 3] } }));
    await step('chart', () => Visit.findAll({
      attributes: [[fn('date_trunc', 'month', col('visit_ts')), 'month'], [fn('count', col('visit')), 'n']],
      group: ['month'], order: ['month'], raw: true,
    }));
    await step('protected chart', () => Person.findAll({
      attributes: ['county', [fn('count', '*'), 'n']], group: ['county'], order: ['county'], raw: true,
    }));
    await db.close();
  },

  async slonik() {
    const { createPool, sql } = require('slonik');
    const pool = await createPool(url);
    const any = sql.unsafe;
    await step('since', () => pool.any(any`SELECT count(*)::int AS n FROM visits WHERE visit_ts >= ${sql.timestamp(since)}`));
    await step('in', () => pool.any(any`SELECT count(*)::int AS n FROM visits WHERE shop = ANY(${sql.array([1, 2], 'int4')})`));
    await pool.end();
  },
};

programs[process.argv[2]]().catch((error) => {
  console.error(error.stack || error.message);
  process.exit(1);
});
