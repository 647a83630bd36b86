"""Every recorded query is answered, with PostgreSQL's columns."""

import pytest

from duckanon.server.catalog import UserCatalog
from tests.amounts import sampled
from tests.server.catalog.corpus import filled, recorded

CLIENTS = sorted({one.client for one in recorded()})
# What PostgreSQL calls a type, and what is as good for a client. DuckDB 1.4 takes a NULL without a type for an INTEGER.
AS_GOOD = {
    *(("name", "text"), ("_name", "_text"), ("varchar", "text"), ("char", "text"), ("_char", "_text")),
    *(("regclass", "text"), ("regproc", "text"), ("_aclitem", "_text"), ("void", "text")),
    *(("int2vector", "_int2"), ("oidvector", "_oid"), ("int4", "int8"), ("text", "int4")),
}


@pytest.fixture(scope="module")
def catalog() -> UserCatalog:
    return filled()


@pytest.mark.parametrize("client", sampled(CLIENTS))
def test_answers_have_postgresqls_columns(client, catalog):
    for one in recorded():
        if one.client != client:
            continue
        assert catalog.answers(one.text), one.text
        answer, described = catalog.run(one.text, one.values), catalog.describe(one.text)
        assert (described.names, described.rows) == (answer.names, []), one.text
        assert list(answer.names) == [name for name, _ in one.columns], one.text
        for (name, kind), shown in zip(one.columns, answer.shown, strict=True):
            assert shown.name == kind or (kind, shown.name) in AS_GOOD, (name, kind, shown.name, one.text)


@pytest.mark.parametrize("client", sampled(CLIENTS))
def test_parameters_have_postgresqls_types(client, catalog):
    for one in recorded():
        if one.client == client:
            found = [kind.name for kind in catalog.parameters(one.text)]
            assert len(found) == len(one.parameters)
            for (kind, _), ours in zip(one.parameters, found, strict=True):
                assert kind == ours or (kind, ours) in AS_GOOD, (kind, ours, one.text)
