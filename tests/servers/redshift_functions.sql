-- Redshift's functions and system views that PostgreSQL lacks, as far as an audit needs them.
-- Run once, as superuser, in the stand-in's database; sessions find them through their search_path
-- (public, redshift_functions, pg_catalog), so those defined here win over PostgreSQL's own.
-- Each follows https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions.html; where that page is silent, the comment says so.
-- No backslashes in here: this database reads them as escapes.

create schema redshift_functions;
grant usage on schema redshift_functions to public;
set search_path = redshift_functions, pg_catalog;

-- The longest VARCHAR -------------------------------------------------------------------------------------------

-- A text as it is; that of the schema redshift_long refuses one of more than 65,535 bytes. What hashes or makes long texts calls it by its
-- name alone, so that a session's search_path decides. The results of || and REPLACE pass it where they are hashed.
create function fits(value text) returns text language sql immutable parallel safe as $$ select value $$;

-- Numbers and hashes --------------------------------------------------------------------------------------------

-- An audit calls these two for every row. PostgreSQL puts a function's one expression in place of its call only if it uses each
-- argument that is dear to compute once; so these refuse what an audit does not ask for, instead of computing it in a second branch.
create function refuse(what text) returns text language plpgsql stable as $$
begin
  raise exception 'the stand-in for Redshift does not compute %', what using errcode = '0A000';
end $$;

-- Up to 15 plain hexadecimal digits; Redshift also takes a sign, 0x, white space, 16 digits and other bases. '' is 0.
create function strtol(digits text, base int) returns bigint language sql stable parallel safe as $$
  select (case base when 16 then 'x0' else redshift_functions.refuse('STRTOL with another base than 16') end || digits)::varbit
    ::pg_catalog."bit"::bigint $$;

-- 0 means 256.
create function sha2(value text, bits int) returns text language sql stable parallel safe as $$
  select encode(sha256(convert_to(fits(value), 'UTF8')),
                case when bits in (0, 256) then 'hex' else redshift_functions.refuse('SHA2 with other than 256 bits') end) $$;

create function md5(value text) returns text language sql stable parallel safe as $$ select pg_catalog.md5(fits(value)) $$;

-- Bytes ---------------------------------------------------------------------------------------------------------

create function to_varbyte(value text, format text) returns bytea language sql immutable strict as $$
  select case lower(format) when 'hex' then decode(value, 'hex') when 'base64' then decode(value, 'base64')
         when 'utf8' then convert_to(value, 'UTF8') when 'utf-8' then convert_to(value, 'UTF8') end $$;
create function from_varbyte(value bytea, format text) returns text language sql immutable strict as $$
  select fits(case lower(format) when 'hex' then encode(value, 'hex')
         when 'base64' then translate(encode(value, 'base64'), chr(10), '')
         when 'utf8' then convert_from(value, 'UTF8') when 'utf-8' then convert_from(value, 'UTF8') end) $$;
create function from_hex(digits text) returns bytea language sql immutable strict as $$ select decode(digits, 'hex') $$;
create function to_hex(value bytea) returns text language sql immutable strict as $$ select encode(value, 'hex') $$;

-- A cast between text and VARBYTE goes through UTF-8; PostgreSQL would print its own escapes.
create function text_to_varbyte(value text) returns bytea language sql immutable strict as $$ select convert_to(value, 'UTF8') $$;
create function varbyte_to_text(value bytea) returns text language sql immutable strict as $$ select convert_from(value, 'UTF8') $$;
create cast (text as bytea) with function text_to_varbyte(text);
create cast (varchar as bytea) with function text_to_varbyte(text);
create cast (bytea as text) with function varbyte_to_text(bytea);
create cast (bytea as varchar) with function varbyte_to_text(bytea);

-- Text and NULL -------------------------------------------------------------------------------------------------

create function len(value text) returns int language sql immutable strict as $$ select char_length(value) $$;
create function len(value bytea) returns int language sql immutable strict as $$ select octet_length(value) $$;
-- NULL if either is NULL; PostgreSQL's own skips NULLs and takes any number of arguments.
create function concat(a text, b text) returns text language sql immutable as $$ select a || b $$;
create function charindex(part text, value text) returns int language sql immutable strict as $$ select strpos(value, part) $$;
-- All occurrences, where PostgreSQL replaces the first.
create function regexp_replace(value text, pattern text, replacement text default '') returns text language sql immutable strict
  as $$ select pg_catalog.regexp_replace(value, pattern, replacement, 'g') $$;
create function nvl2(tested anyelement, present anycompatible, absent anycompatible) returns anycompatible language sql immutable
  as $$ select case when tested is not null then present else absent end $$;
create function nvl2(tested text, present anycompatible, absent anycompatible) returns anycompatible language sql immutable
  as $$ select case when tested is not null then present else absent end $$;

-- Time: Redshift's clock is UTC ---------------------------------------------------------------------------------

create function getdate() returns timestamp language sql stable
  as $$ select date_trunc('second', statement_timestamp() at time zone 'UTC') $$;
create function sysdate() returns timestamp language sql stable as $$ select transaction_timestamp() at time zone 'UTC' $$;
create function convert_timezone(target text, value timestamp) returns timestamp language sql stable strict
  as $$ select value at time zone 'UTC' at time zone target $$;
create function convert_timezone(source text, target text, value timestamp) returns timestamp language sql stable strict
  as $$ select value at time zone source at time zone target $$;
create function convert_timezone(target text, value timestamptz) returns timestamp language sql stable strict
  as $$ select value at time zone target $$;
create function trunc(value timestamp) returns date language sql immutable strict as $$ select value::date $$;

-- The date part under its full name, whichever of Redshift's abbreviations was used.
create function date_part_name(part text) returns text language sql immutable strict as $$
  select case
    when p in ('y', 'yr', 'yrs', 'years') then 'year' when p in ('qtr', 'qtrs', 'quarters') then 'quarter'
    when p in ('mon', 'mons', 'months') then 'month' when p in ('w', 'weeks') then 'week'
    when p in ('d', 'days') then 'day' when p in ('h', 'hr', 'hrs', 'hours') then 'hour'
    when p in ('m', 'min', 'mins', 'minutes') then 'minute' when p in ('s', 'sec', 'secs', 'seconds') then 'second'
    when p in ('ms', 'msec', 'milliseconds') then 'millisecond' when p in ('us', 'usec', 'microseconds') then 'microsecond'
    else p end
  from lower(part) as p $$;
create function dateadd(part text, number bigint, value timestamp) returns timestamp language sql immutable strict as $$
  select value + number * case redshift_functions.date_part_name(part) when 'quarter' then interval '3 months'
    else ('1 ' || redshift_functions.date_part_name(part))::interval end $$;
create function date_add(part text, number bigint, value timestamp) returns timestamp language sql immutable strict
  as $$ select redshift_functions.dateadd(part, number, value) $$;
-- Boundaries crossed, not units elapsed. AWS does not say where a week starts: Monday here.
create function datediff(part text, since timestamp, until timestamp) returns bigint language sql immutable strict as $$
  select case p
    when 'year' then extract(year from until) - extract(year from since)
    when 'quarter' then 4 * (extract(year from until) - extract(year from since)) + extract(quarter from until) - extract(quarter from since)
    when 'month' then 12 * (extract(year from until) - extract(year from since)) + extract(month from until) - extract(month from since)
    when 'week' then (date_trunc('week', until)::date - date_trunc('week', since)::date) / 7
    when 'day' then until::date - since::date
    else extract(epoch from date_trunc(p, until) - date_trunc(p, since))
       * case p when 'hour' then 1 / 3600.0 when 'minute' then 1 / 60.0 when 'second' then 1 when 'millisecond' then 1000 else 1000000 end
    end::bigint
  from redshift_functions.date_part_name(part) as p $$;
create function date_diff(part text, since timestamp, until timestamp) returns bigint language sql immutable strict
  as $$ select redshift_functions.datediff(part, since, until) $$;

-- JSON and SUPER ------------------------------------------------------------------------------------------------

create function json_parse(value text) returns jsonb language sql immutable strict as $$ select value::jsonb $$;
create function can_json_parse(value text) returns boolean language plpgsql immutable strict as $$
begin
  perform value::jsonb;
  return true;
exception when invalid_text_representation or untranslatable_character then
  return false;
end $$;
-- A JSON object; arrays have is_valid_json_array.
create function is_valid_json(value text) returns boolean language sql immutable strict as $$
  select case when redshift_functions.can_json_parse(value) then jsonb_typeof(value::jsonb) = 'object' else false end $$;
create function is_valid_json_array(value text) returns boolean language sql immutable strict as $$
  select case when redshift_functions.can_json_parse(value) then jsonb_typeof(value::jsonb) = 'array' else false end $$;
-- Without the blanks that PostgreSQL prints.
create function json_text(value jsonb) returns text language sql immutable strict as $$
  select case jsonb_typeof(value)
    when 'object' then '{' || coalesce((select string_agg(to_json(k)::text || ':' || redshift_functions.json_text(v), ',' order by i)
                                        from jsonb_each(value) with ordinality as member(k, v, i)), '') || '}'
    when 'array' then '[' || coalesce((select string_agg(redshift_functions.json_text(v), ',' order by i)
                                       from jsonb_array_elements(value) with ordinality as item(v, i)), '') || ']'
    else value::text end $$;
-- Never NULL. https://docs.aws.amazon.com/redshift/latest/dg/JSON_SERIALIZE.html
create function json_serialize(value jsonb) returns text language sql immutable
  as $$ select fits(coalesce(redshift_functions.json_text(value), 'null')) $$;
create function json_serialize_to_varbyte(value jsonb) returns bytea language sql immutable
  as $$ select convert_to(coalesce(redshift_functions.json_text(value), 'null'), 'UTF8') $$;
create function json_size(value jsonb) returns int language sql immutable
  as $$ select octet_length(coalesce(redshift_functions.json_text(value), 'null')) $$;
create function json_extract_path_text(value text, variadic path text[]) returns text language sql immutable
  as $$ select value::jsonb #>> path $$;
create function json_array_length(value text) returns int language sql immutable strict as $$ select jsonb_array_length(value::jsonb) $$;

-- Rows of the session's last UNLOAD: redshift_unload.py has its program write them beside the server's data.
create function pg_last_unload_count() returns bigint language sql volatile
  as $$ select pg_read_file('unload_count_' || pg_backend_pid())::bigint $$;

-- What the server says of itself and of its tables --------------------------------------------------------------

create function version() returns text language sql stable as $$
  select 'PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.0 (stand-in on PostgreSQL '
      || current_setting('server_version') || ')' $$;

-- The names under which Redshift lists types that are spelled otherwise here.
create function type_name(name text) returns text language sql immutable strict as $$
  select case name when 'jsonb' then 'super' when 'bytea' then 'binary varying' when 'text' then 'character varying' else name end $$;
-- Rows now: Redshift's figure does not wait for ANALYZE either. Dear, so that conditions on names are tried first.
create function table_rows(name regclass) returns numeric language plpgsql stable strict cost 1000000 as $$
declare
  rows bigint;
begin
  execute 'select count(*) from ' || name::text into rows;
  return rows;
end $$;

create view user_tables as
  select c.oid, n.nspname, c.relname, c.relkind, n.oid as schema_oid
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v') and n.nspname <> all (array['pg_catalog', 'information_schema', 'redshift_functions', 'pg_toast']);

-- Only schemas of the search_path, as in Redshift.
create view pg_table_def as
  select t.nspname::text as schemaname, t.relname::text as tablename, a.attname::text as "column",
         case when a.atttypid = 'text'::regtype then 'character varying(256)'
              else redshift_functions.type_name(format_type(a.atttypid, a.atttypmod)) end as type,
         'none'::text as encoding, false as distkey, 0 as sortkey, a.attnotnull as "notnull"
  from user_tables t join pg_attribute a on a.attrelid = t.oid
  where a.attnum > 0 and not a.attisdropped and t.nspname = any (current_schemas(false));

-- Empty tables are not listed, as in Redshift.
create view svv_table_info as
  select current_database()::text as database, nspname::text as schema, oid as table_id, relname::text as "table", 'N'::text as encoded,
         'AUTO(EVEN)'::text as diststyle, null::text as sortkey1, 0 as sortkey_num, greatest(1, pg_relation_size(oid) / 1048576) as size,
         0::numeric as pct_used, 0::numeric as unsorted, 0::numeric as stats_off,
         table_rows(oid)::numeric(38, 0) as tbl_rows, table_rows(oid)::numeric(38, 0) as estimated_visible_rows
  from user_tables
  where relkind in ('r', 'p') and table_rows(oid) > 0;

create view svv_columns as
  select table_catalog::text, table_schema::text, table_name::text, column_name::text, ordinal_position::int, column_default::text,
         is_nullable::text, redshift_functions.type_name(data_type::text) as data_type,
         case data_type when 'text' then 256 else character_maximum_length end::int as character_maximum_length,
         numeric_precision::int, numeric_precision_radix::int, numeric_scale::int, datetime_precision::int, null::text as remarks
  from information_schema.columns
  where table_schema <> 'redshift_functions';
create view svv_tables as
  select table_catalog::text, table_schema::text, table_name::text, table_type::text, null::text as remarks
  from information_schema.tables
  where table_schema <> 'redshift_functions';
create view svv_all_columns as
  select table_catalog as database_name, table_schema as schema_name, table_name, column_name, ordinal_position, column_default, is_nullable,
         data_type, character_maximum_length, numeric_precision, numeric_scale, remarks
  from svv_columns;
create view svv_redshift_columns as
  select c.database_name, c.schema_name, c.table_name, c.column_name, c.ordinal_position, c.data_type, c.column_default, c.is_nullable,
         'none'::text as encoding, false as distkey, 0 as sortkey, null::text as column_acl, c.remarks
  from svv_all_columns c;
create view svv_all_tables as
  select table_catalog as database_name, table_schema as schema_name, table_name,
         case table_type when 'BASE TABLE' then 'TABLE' else table_type end as table_type, null::text as table_acl, remarks
  from svv_tables;
create view svv_redshift_tables as select * from svv_all_tables;
create view svv_external_tables as
  select null::text as schemaname, null::text as tablename, null::text as location where false;

-- What runs, for an auditor that waits while the cluster is busy.
create view stv_recents as
  select usesysid::int as userid, case state when 'active' then 'Running' else 'Done' end as status, query_start as starttime,
         (extract(epoch from clock_timestamp() - query_start) * 1000000)::bigint as duration, usename::text as user_name,
         datname::text as db_name, query::text, pid
  from pg_stat_activity where datname = current_database();
-- Two nodes of two slices, and a slice that computes alone.
create view stv_slices as
  select slice / 2 as node, slice, slice % 2 as localslice, case when slice < 4 then 'D' else 'C' end as type from generate_series(0, 4) slice;
create view stv_sessions as
  select backend_start as starttime, pid as process, usename::text as user_name, datname::text as db_name
  from pg_stat_activity where datname = current_database();
create view stv_inflight as
  select userid, 0 as slice, pid::int as query, pid, starttime, query as text, 0 as suspended from stv_recents where status = 'Running';

create view svv_rls_attached_policy as
  select n.nspname::text as relschema, c.relname::text as relname, 'table'::text as relkind, p.polname::text as polname,
         ''::text as grantor, 'public'::text as grantee, 'role'::text as granteekind, true as is_pol_on, c.relrowsecurity as is_rls_on
  from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace;
-- PostgreSQL has no masking policies; a comment on a column that begins with "masked by" stands for one.
create view svv_attached_masking_policy as
  select substr(d.description, 11)::text as policy_name, n.nspname::text as schema_name, c.relname::text as table_name,
         a.attname::text as output_columns
  from pg_description d join pg_class c on c.oid = d.objoid and d.classoid = 'pg_class'::regclass
  join pg_attribute a on a.attrelid = c.oid and a.attnum = d.objsubid join pg_namespace n on n.oid = c.relnamespace
  where d.description like 'masked by %';

create view sys_query_history as
  select usesysid::int as user_id, pid::bigint as query_id, pid as session_id, datname::char(128) as database_name,
         'SELECT'::char(32) as query_type, case state when 'active' then 'running' else 'success' end::char(10) as status,
         query_start as start_time, query_start as end_time,
         (extract(epoch from clock_timestamp() - query_start) * 1000000)::bigint as elapsed_time, 0::bigint as queue_time,
         (extract(epoch from clock_timestamp() - query_start) * 1000000)::bigint as execution_time, query::char(4000) as query_text
  from pg_stat_activity where datname is not null;

grant select on all tables in schema redshift_functions to public;

-- Five arguments: source, pattern, replacement, where to start, and 'p' for Perl's patterns, in which $1 is the first group.
create function regexp_replace(source text, pattern text, replacement text, start int, flags text) returns text
language sql immutable strict parallel safe as $$
  select pg_catalog.regexp_replace(substr(source, start), pattern, replace(replacement, '$', chr(92)), 'g') $$;

-- COPY from a program, to which the front sends what it fetched from S3 ------------------------------------------

-- Values are read as texts, and cast as Redshift reads them: a VARBYTE from its hexadecimal digits, a VARCHAR by its bytes. A row that
-- does not fit fails the whole COPY. https://docs.aws.amazon.com/redshift/latest/dg/t_Troubleshooting_load_errors.html
create function copy_from(target text, columns text, program text) returns void language plpgsql as $$
declare
  texts text;
  casts text;
  longest text;
  too_long text;
begin
  select string_agg(quote_ident(name) || ' text', ', ' order by place),
         string_agg(case a.atttypid when 'bytea'::regtype then 'decode(' || quote_ident(name) || ', ''hex'')'
                    else 'cast(' || quote_ident(name) || ' as ' || format_type(a.atttypid, a.atttypmod) || ')' end, ', ' order by place),
         string_agg(format('when octet_length(%I) > %s then %L', name, a.atttypmod - 4, name), ' ')
           filter (where a.atttypid = 'varchar'::regtype and a.atttypmod > 0)
    into texts, casts, longest
    from unnest(string_to_array(replace(columns, '"', ''), ', ')) with ordinality as c(name, place)
    join pg_attribute a on a.attrelid = target::regclass and a.attname = name;
  execute format('create temporary table copied_lines (%s) on commit drop', texts);
  begin
    execute format('copy copied_lines from program %L', program);
    if longest is not null then
      execute format('select case %s end from copied_lines where case %1$s end is not null limit 1', longest) into too_long;
      if too_long is not null then
        raise exception 'String length exceeds DDL length: %', too_long;
      end if;
    end if;
    execute format('insert into %s (%s) select %s from copied_lines', target, columns, casts);
  exception when others then
    raise exception 'Load into table % failed.  Check ''sys_load_error_detail'' system table for details.', quote_literal(target)
      using errcode = 'XX000', detail = sqlerrm;
  end;
  drop table copied_lines;
end $$;
