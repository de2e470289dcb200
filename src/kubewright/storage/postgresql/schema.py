"""Tables, functions and statements of the storage in PostgreSQL.

| table | rows |
|---|---|
| `store` | one: format, current revision, compacted revision. Its lock orders all writes |
| `changes` | one per revision: key, value (NULL: deleted), revision that created the key, replaced revision |
| `keys` | one per existing key: the revision of its current value, expiry |
| `compaction` | one: up to which revision obsolete changes were deleted, and when compaction is due |

The function `write_v1` applies a batch of writes to distinct keys. It locks the row of `store` until the
commit, then compares, inserts and numbers all of them in one statement, which sees all earlier commits.
A function never changes after a release: a new version gets a new name, so that servers of two versions can
use the same schema during an upgrade.
"""

from __future__ import annotations

from typing import Any

from kubewright.storage.contract import StorageError

FORMAT = 1

_TABLES = """
    CREATE TABLE {schema}.store (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
        format integer NOT NULL,
        revision bigint NOT NULL,
        compacted bigint NOT NULL
    ) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

    CREATE TABLE {schema}.changes (
        revision bigint PRIMARY KEY,
        key text COLLATE "C" NOT NULL,
        value bytea,
        create_revision bigint NOT NULL,
        previous_revision bigint NOT NULL
    ) WITH (toast_tuple_target = 8160);
    ALTER TABLE {schema}.changes ALTER COLUMN value SET STORAGE EXTERNAL;

    CREATE TABLE {schema}.keys (
        key text COLLATE "C" PRIMARY KEY,
        revision bigint NOT NULL,
        create_revision bigint NOT NULL,
        expires timestamptz
    ) WITH (fillfactor = 80);
    CREATE INDEX keys_expires ON {schema}.keys (expires) WHERE expires IS NOT NULL;

    CREATE TABLE {schema}.compaction (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
        collected bigint NOT NULL,
        candidate bigint NOT NULL,
        checked timestamptz NOT NULL
    ) WITH (fillfactor = 10);

    INSERT INTO {schema}.compaction (collected, candidate, checked) VALUES (0, 0, clock_timestamp());
    INSERT INTO {schema}.store (format, revision, compacted) VALUES (1, 0, 0);
"""

_FUNCTIONS = """
    -- Return the new revision of each write, 0 if the key is not at the expected revision (0: is missing).
    -- The result is small: a server that sends a large one to a paused client would hold the lock meanwhile.
    CREATE OR REPLACE FUNCTION {schema}.write_v1(
        given_keys text[], given_values bytea[], expected_revisions bigint[], ttls double precision[]
    ) RETURNS bigint[] LANGUAGE plpgsql AS $function$
    DECLARE
        last bigint;
        reached bigint;
        result bigint[];
    BEGIN
        SELECT s.revision INTO STRICT last FROM {schema}.store s FOR UPDATE;
        WITH checked AS (
            SELECT o.number, o.key, o.value, o.ttl, k.revision AS replaced, k.create_revision AS created,
                   coalesce(k.revision, 0) = o.expected AS accepted
              FROM unnest(given_keys, given_values, expected_revisions, ttls)
                   WITH ORDINALITY AS o (key, value, expected, ttl, number)
              LEFT JOIN {schema}.keys k ON k.key = o.key
        ), numbered AS MATERIALIZED (
            SELECT c.*, last + count(*) FILTER (WHERE c.accepted) OVER (ORDER BY c.number) AS revision
              FROM checked c
        ), logged AS (
            INSERT INTO {schema}.changes (revision, key, value, create_revision, previous_revision)
            SELECT n.revision, n.key, n.value, coalesce(n.created, n.revision), coalesce(n.replaced, 0)
              FROM numbered n WHERE n.accepted
        ), put AS (
            INSERT INTO {schema}.keys AS k (key, revision, create_revision, expires)
            SELECT n.key, n.revision, coalesce(n.created, n.revision),
                   clock_timestamp() + n.ttl * interval '1 second'
              FROM numbered n WHERE n.accepted AND n.value IS NOT NULL
            ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, expires = excluded.expires
        ), removed AS (
            DELETE FROM {schema}.keys k USING numbered n
             WHERE n.accepted AND n.value IS NULL AND k.key = n.key
        )
        SELECT array_agg(CASE WHEN n.accepted THEN n.revision ELSE 0 END ORDER BY n.number), max(n.revision)
          INTO result, reached
          FROM numbered n;
        IF reached > last THEN
            UPDATE {schema}.store SET revision = reached;
            PERFORM pg_notify('{name}', reached::text);
        END IF;
        RETURN result;
    END
    $function$;

    -- Delete the changes of some revisions that compaction has made obsolete; return whether there are more.
    CREATE OR REPLACE FUNCTION {schema}.collect_v1(revisions bigint)
    RETURNS boolean LANGUAGE plpgsql AS $function$
    DECLARE
        low bigint;
        high bigint;
        compacted bigint;
    BEGIN
        SELECT c.collected INTO STRICT low FROM {schema}.compaction c FOR UPDATE;
        SELECT s.compacted INTO STRICT compacted FROM {schema}.store s;
        high := least(low + revisions, compacted);
        IF high > low THEN
            DELETE FROM {schema}.changes d
             USING {schema}.changes c
             WHERE c.revision > low AND c.revision <= high AND d.revision = c.previous_revision;
            DELETE FROM {schema}.changes d WHERE d.revision > low AND d.revision <= high AND d.value IS NULL;
            UPDATE {schema}.compaction SET collected = high;
        END IF;
        RETURN high < compacted;
    END
    $function$;

    -- Return the current revision of at least one period ago once per period, otherwise 0.
    CREATE OR REPLACE FUNCTION {schema}.compaction_due_v1(period double precision)
    RETURNS bigint LANGUAGE plpgsql AS $function$
    DECLARE
        due bigint;
    BEGIN
        SELECT c.candidate INTO due FROM {schema}.compaction c
         WHERE c.checked <= clock_timestamp() - period * interval '1 second' FOR UPDATE;
        IF due IS NULL THEN
            RETURN 0;
        END IF;
        UPDATE {schema}.compaction
           SET checked = clock_timestamp(), candidate = (SELECT s.revision FROM {schema}.store s);
        RETURN due;
    END
    $function$;
"""


# $1, $2: first key of the range, and first key after it; $3: a key to omit; $4: limit
_CURRENT = """
    SELECT k.key, k.revision FROM {schema}.keys k
     WHERE k.key >= $1 AND k.key < $2 AND k.key <> $3
     ORDER BY k.key LIMIT $4"""

# $5: revision. A key that has changed since had the value that the first of these changes has replaced.
_EARLIER = """
    (SELECT k.key, k.revision FROM {schema}.keys k
      WHERE k.key >= $1 AND k.key < $2 AND k.key <> $3 AND k.revision <= $5
      ORDER BY k.key LIMIT $4)
    UNION ALL
    SELECT c.key, c.previous_revision AS revision FROM {schema}.changes c
     WHERE c.key >= $1 AND c.key < $2 AND c.key <> $3
       AND c.revision > $5 AND c.previous_revision BETWEEN 1 AND $5
     ORDER BY key LIMIT $4"""

_LIST = """
    SELECT s.revision, s.compacted, i.key, i.value, i.create_revision, i.mod_revision
      FROM {schema}.store s LEFT JOIN LATERAL (
        SELECT f.key, c.value, c.create_revision, c.revision AS mod_revision
          FROM ({found}) f
          JOIN {schema}.changes c ON c.revision = f.revision
      ) i ON true
     ORDER BY i.key"""

# $1: last key before the range; $2: first key after it; $3: revision
_COUNT = """
    SELECT s.compacted,
           (SELECT count(*) FROM {schema}.keys k
             WHERE k.key > $1 AND k.key < $2 AND k.revision <= $3)
         + (SELECT count(*) FROM {schema}.changes c
             WHERE c.key > $1 AND c.key < $2 AND c.revision > $3 AND c.previous_revision BETWEEN 1 AND $3)
      FROM {schema}.store s"""

_GET = """
    SELECT s.revision, i.key, i.value, i.create_revision, i.mod_revision
      FROM {schema}.store s LEFT JOIN LATERAL (
        SELECT k.key, c.value, k.create_revision, k.revision AS mod_revision
          FROM unnest($1::text[]) AS wanted (key)
          JOIN {schema}.keys k ON k.key = wanted.key
          JOIN {schema}.changes c ON c.revision = k.revision
      ) i ON true"""

_CHANGES = """
    SELECT s.revision AS last, s.compacted, e.*
      FROM {schema}.store s LEFT JOIN LATERAL (
        SELECT c.revision, c.key, c.value, c.create_revision,
               p.revision AS previous, p.value AS previous_value
          FROM {schema}.changes c LEFT JOIN {schema}.changes p ON p.revision = c.previous_revision
         WHERE c.revision > $1 AND starts_with(c.key, $2)
         ORDER BY c.revision LIMIT $3
      ) e ON true
     ORDER BY e.revision"""

_EXPIRIES = """
    SELECT key, revision, extract(epoch FROM expires - clock_timestamp())::float8 AS seconds
      FROM {schema}.keys WHERE expires IS NOT NULL ORDER BY expires LIMIT 500"""

_SIZE = """
    SELECT pg_total_relation_size('{schema}.changes') + pg_total_relation_size('{schema}.keys')
         + pg_total_relation_size('{schema}.store') + pg_total_relation_size('{schema}.compaction')"""

_STATE = """
    SELECT current_setting('server_encoding'),
           EXISTS (SELECT FROM pg_namespace WHERE nspname = '{name}'),
           to_regclass('{schema}.store') IS NOT NULL,
           (SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE n.nspname = '{name}'
               AND p.proname IN ('write_v1', 'collect_v1', 'compaction_due_v1')) = 3"""
"""The encoding of the database, and whether the schema, its tables and its functions exist."""


class Statements:
    """The statements for one schema; each reads one snapshot, which includes the row of `store`."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.write = self.qualify("SELECT {schema}.write_v1($1, $2, $3, $4)")
        self.revision = self.qualify("SELECT revision FROM {schema}.store")
        self.get = self.qualify(_GET)
        self.list = self.qualify(_LIST.replace("{found}", _CURRENT))
        self.list_at = self.qualify(_LIST.replace("{found}", _EARLIER))
        self.count = self.qualify(_COUNT)
        self.changes = self.qualify(_CHANGES)
        self.compact = self.qualify(
            "UPDATE {schema}.store SET compacted = $1 WHERE compacted < $1 AND revision >= $1"
        )
        self.collect = self.qualify("SELECT {schema}.collect_v1($1)")
        self.compaction_due = self.qualify("SELECT {schema}.compaction_due_v1($1)")
        self.expiries = self.qualify(_EXPIRIES)
        self.size = self.qualify(_SIZE)

    def qualify(self, statement: str) -> str:
        """Return a statement with the name of the schema."""
        return statement.replace("{schema}", f'"{self.schema}"').replace("{name}", self.schema)


async def prepare_schema(connection: Any, statements: Statements, where: str) -> None:
    """Create the tables and functions that do not exist; several servers can do so at the same time."""
    state = statements.qualify(_STATE)
    encoding, _, has_tables, has_functions = await connection.fetchrow(state)
    if encoding != "UTF8":
        raise StorageError(
            f"PostgreSQL at {where}: the database has the encoding {encoding}; create it with ENCODING 'UTF8'"
        )
    if not (has_tables and has_functions):
        async with connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtext($1))", f"kubewright {statements.schema}"
            )
            # Another server may have created them meanwhile.
            _, has_schema, has_tables, has_functions = await connection.fetchrow(state)
            if not has_schema:
                await connection.execute(statements.qualify("CREATE SCHEMA {schema}"))
            if not has_tables:
                await connection.execute(statements.qualify(_TABLES))
            if not has_functions:
                await connection.execute(statements.qualify(_FUNCTIONS))
    found = await connection.fetchval(statements.qualify("SELECT format FROM {schema}.store"))
    if found != FORMAT:
        raise StorageError(
            f"PostgreSQL at {where}: the schema {statements.schema} has the format {found}, but this version "
            f"of Kubewright reads format {FORMAT}; use the version that has written it"
        )
