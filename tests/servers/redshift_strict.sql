-- How Redshift types, compares and prints where PostgreSQL does otherwise. Each schema holds one such behaviour; the front puts the
-- schemas of the behaviours that are on before the others in a session's search_path (redshift_strict.py).
-- Run once, as superuser, after redshift_functions.sql. No backslashes in here: this database reads them as escapes.

-- MOD yields an INTEGER if either number is one. https://docs.aws.amazon.com/redshift/latest/dg/r_MOD.html
create schema redshift_mod;
create function redshift_mod.rest(a bigint, b int) returns int language sql immutable strict parallel safe
  as $$ select pg_catalog.mod(a, b::bigint)::int $$;
create function redshift_mod.rest(a int, b bigint) returns int language sql immutable strict parallel safe
  as $$ select pg_catalog.mod(a::bigint, b)::int $$;
create function redshift_mod.refuse(a bigint, b smallint) returns bigint language plpgsql immutable as $$
begin
  raise exception 'function mod(bigint, smallint) does not exist' using errcode = '42883';
end $$;
create operator redshift_mod.% (leftarg = bigint, rightarg = int, function = redshift_mod.rest);
create operator redshift_mod.% (leftarg = int, rightarg = bigint, function = redshift_mod.rest);
create operator redshift_mod.% (leftarg = bigint, rightarg = smallint, function = redshift_mod.refuse);

-- The sum of BIGINTs is a BIGINT. https://docs.aws.amazon.com/redshift/latest/dg/r_SUM.html
create schema redshift_sum;
create aggregate redshift_sum.sum(bigint) (sfunc = pg_catalog.int8pl, stype = bigint, combinefunc = pg_catalog.int8pl, parallel = safe);

-- Not documented: whether ROUND of a whole number goes through a float, and whether hexadecimal digits are small letters.
create schema redshift_float_round;
create function redshift_float_round.round(c bigint, digits int) returns bigint language sql immutable strict parallel safe
  as $$ select pg_catalog.round(c::double precision)::bigint $$;
create function redshift_float_round.round(c bigint) returns bigint language sql immutable strict parallel safe
  as $$ select pg_catalog.round(c::double precision)::bigint $$;
create schema redshift_capitals;
create function redshift_capitals.from_varbyte(value bytea, format text) returns text language sql immutable strict parallel safe as $$
  select case lower(format) when 'hex' then upper(fits(encode(value, 'hex'))) else redshift_functions.from_varbyte(value, format) end $$;

-- A VARCHAR ends at 65,535 bytes. https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-storage-and-ranges
create schema redshift_long;
create function redshift_long.fits(value text) returns text language plpgsql immutable parallel safe as $$
begin
  if octet_length(value) > 65535 then
    raise exception 'Value too long for character type' using errcode = 'XX000',
      detail = 'code: 8001, context: Value too long for type character varying(65535)';
  end if;
  return value;
end $$;

-- Not documented: back-references in the replacement of REGEXP_REPLACE.
create schema redshift_no_groups;
create function redshift_no_groups.regexp_replace(source text, pattern text, replacement text, start int, flags text) returns text
language sql immutable strict parallel safe as $$
  select case when strpos(replacement, '$') = 0 then redshift_functions.regexp_replace(source, pattern, replacement, start, flags)
         else redshift_functions.refuse('REGEXP_REPLACE with a back-reference') end $$;

-- NaN is compared as IEEE 754 does: it equals nothing, nor itself, and is neither greater nor less.
create schema redshift_ieee;
create function redshift_ieee.is_nan(a double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.=) 'NaN'::double precision $$;
create function redshift_ieee.eq(a double precision, b double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.=) b and not redshift_ieee.is_nan(a) $$;
create function redshift_ieee.ne(a double precision, b double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.<>) b or redshift_ieee.is_nan(a) $$;
create function redshift_ieee.lt(a double precision, b double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.<) b and not redshift_ieee.is_nan(b) $$;
create function redshift_ieee.le(a double precision, b double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.<=) b and not redshift_ieee.is_nan(b) $$;
create function redshift_ieee.gt(a double precision, b double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.>) b and not redshift_ieee.is_nan(a) $$;
create function redshift_ieee.ge(a double precision, b double precision) returns boolean language sql immutable strict parallel safe
  as $$ select a operator(pg_catalog.>=) b and not redshift_ieee.is_nan(a) $$;
create operator redshift_ieee.= (leftarg = double precision, rightarg = double precision, function = redshift_ieee.eq);
create operator redshift_ieee.<> (leftarg = double precision, rightarg = double precision, function = redshift_ieee.ne);
create operator redshift_ieee.< (leftarg = double precision, rightarg = double precision, function = redshift_ieee.lt);
create operator redshift_ieee.<= (leftarg = double precision, rightarg = double precision, function = redshift_ieee.le);
create operator redshift_ieee.> (leftarg = double precision, rightarg = double precision, function = redshift_ieee.gt);
create operator redshift_ieee.>= (leftarg = double precision, rightarg = double precision, function = redshift_ieee.ge);

-- Text -----------------------------------------------------------------------------------------------------------
-- Blanks at the end of a text mean nothing when it is compared, grouped or joined; in a database that was created as such, nor does case.
-- https://docs.aws.amazon.com/redshift/latest/dg/r_Character_types.html#r_Character_types-significance-of-trailing-blanks
-- https://docs.aws.amazon.com/redshift/latest/dg/r_CREATE_DATABASE.html
-- PostgreSQL's own functions for CHARACTER(n) compare so, and take a TEXT as well, since both are stored alike.

create schema redshift_blanks;
create schema redshift_case;

-- The result of COLLATE(c, 'case_sensitive'). https://docs.aws.amazon.com/redshift/latest/dg/r_COLLATE.html
create type redshift_functions.sensitive;
create function redshift_functions.sensitive_in(cstring) returns redshift_functions.sensitive language internal immutable strict parallel safe as 'textin';
create function redshift_functions.sensitive_out(redshift_functions.sensitive) returns cstring language internal immutable strict parallel safe as 'textout';
create type redshift_functions.sensitive (
  input = redshift_functions.sensitive_in, output = redshift_functions.sensitive_out, like = pg_catalog.text, category = 'S', collatable = true);
create cast (redshift_functions.sensitive as text) without function as implicit;
create cast (text as redshift_functions.sensitive) without function as assignment;

-- Operators and operator classes, by the type that they compare and the functions that do.
do $do$
declare
  how record;
  sign text[];
  -- operator, its name, PostgreSQL's function, commutator, negator, estimators
  signs text[] := array[['=', 'eq', 'bpchareq', '=', '<>', 'eq'], ['<>', 'ne', 'bpcharne', '<>', '=', 'neq'],
                        ['<', 'lt', 'bpcharlt', '>', '>=', 'scalarlt'], ['<=', 'le', 'bpcharle', '>=', '>', 'scalarle'],
                        ['>', 'gt', 'bpchargt', '<', '<=', 'scalargt'], ['>=', 'ge', 'bpcharge', '<=', '<', 'scalarge']];
begin
  for how in values ('redshift_blanks', 'pg_catalog.text', true), ('redshift_functions', 'redshift_functions.sensitive', true),
                    ('redshift_case', 'pg_catalog.text', false) loop
    foreach sign slice 1 in array signs loop
      if how.column3 then
        execute format('create function %s.text_%s(%s, %s) returns boolean language internal immutable strict parallel safe as %L',
                       how.column1, sign[2], how.column2, how.column2, sign[3]);
      else
        execute format('create function %s.text_%s(a %s, b %s) returns boolean language sql immutable strict parallel safe as '
                       '$$ select redshift_blanks.text_%s(lower(a), lower(b)) $$', how.column1, sign[2], how.column2, how.column2, sign[2]);
      end if;
    end loop;
    execute format(case when how.column3 then 'create function %1$s.text_cmp(%2$s, %2$s) returns int language internal immutable strict parallel safe as ''bpcharcmp'''
      else 'create function %1$s.text_cmp(a %2$s, b %2$s) returns int language sql immutable strict parallel safe as '
           '$$ select redshift_blanks.text_cmp(lower(a), lower(b)) $$' end, how.column1, how.column2);
    execute format(case when how.column3 then 'create function %1$s.text_hash(%2$s) returns int language internal immutable strict parallel safe as ''hashbpchar'''
      else 'create function %1$s.text_hash(a %2$s) returns int language sql immutable strict parallel safe as '
           '$$ select redshift_blanks.text_hash(lower(a)) $$' end, how.column1, how.column2);
    foreach sign slice 1 in array signs loop
      execute format('create operator %1$s.%3$s (leftarg = %2$s, rightarg = %2$s, function = %1$s.text_%4$s, commutator = operator(%1$s.%5$s), '
                     'negator = operator(%1$s.%6$s), restrict = %7$s, join = %8$s%9$s)', how.column1, how.column2, sign[1], sign[2],
                     sign[4], sign[5], sign[6] || 'sel', sign[6] || 'joinsel', case when sign[1] = '=' then ', hashes, merges' else '' end);
    end loop;
    execute format('create operator class %1$s.text_order %3$s for type %2$s using btree as operator 1 %1$s.<, operator 2 %1$s.<=, '
                   'operator 3 %1$s.=, operator 4 %1$s.>=, operator 5 %1$s.>, function 1 %1$s.text_cmp(%2$s, %2$s)',
                   how.column1, how.column2, case when how.column1 = 'redshift_functions' then 'default' else '' end);
    execute format('create operator class %1$s.text_groups %3$s for type %2$s using hash as operator 1 %1$s.=, function 1 %1$s.text_hash(%2$s)',
                   how.column1, how.column2, case when how.column1 = 'redshift_functions' then 'default' else '' end);
  end loop;
end $do$;

-- LIKE of a text in a database without case, and of COLLATE's result.
create function redshift_case.text_like(text, text) returns boolean language internal immutable strict parallel safe as 'texticlike';
create function redshift_case.text_not_like(text, text) returns boolean language internal immutable strict parallel safe as 'texticnlike';
create operator redshift_case.~~ (leftarg = text, rightarg = text, function = redshift_case.text_like, negator = operator(redshift_case.!~~));
create operator redshift_case.!~~ (leftarg = text, rightarg = text, function = redshift_case.text_not_like, negator = operator(redshift_case.~~));
create function redshift_functions.text_like(redshift_functions.sensitive, text) returns boolean language internal immutable strict parallel safe as 'textlike';
create function redshift_functions.text_not_like(redshift_functions.sensitive, text) returns boolean language internal immutable strict parallel safe as 'textnlike';
create operator redshift_functions.~~ (leftarg = redshift_functions.sensitive, rightarg = text, function = redshift_functions.text_like, negator = operator(redshift_functions.!~~));
create operator redshift_functions.!~~ (leftarg = redshift_functions.sensitive, rightarg = text, function = redshift_functions.text_not_like, negator = operator(redshift_functions.~~));

create function redshift_functions.collate(c text, name text) returns redshift_functions.sensitive language sql immutable parallel safe
  as $$ select case name when 'case_sensitive' then c else redshift_functions.refuse('COLLATE with case_insensitive') end
               ::redshift_functions.sensitive $$;

-- GROUP BY, DISTINCT and ORDER BY compare by a type's default operator class: that of this schema, or PostgreSQL's own.
create function redshift_functions.compare_text_as(schema_name text) returns void language plpgsql as $$
begin
  update pg_catalog.pg_opclass o
  set opcdefault = (o.opcnamespace = schema_name::regnamespace and o.opcname in ('text_order', 'text_groups', 'text_ops'))
  from pg_catalog.pg_am m
  where m.oid = o.opcmethod and m.amname in ('btree', 'hash') and o.opcintype = 'text'::regtype
    and o.opcname in ('text_order', 'text_groups', 'text_ops');
end $$;

-- Keys are not enforced. https://docs.aws.amazon.com/redshift/latest/dg/t_Defining_constraints.html
create function redshift_functions.leave_keys_unenforced() returns event_trigger language plpgsql as $$
begin
  update pg_catalog.pg_index set indisunique = false
  where indisprimary and indisunique and indrelid in (select objid from pg_event_trigger_ddl_commands() where classid = 'pg_class'::regclass);
end $$;
create event trigger leave_keys_unenforced on ddl_command_end when tag in ('CREATE TABLE', 'ALTER TABLE')
  execute function redshift_functions.leave_keys_unenforced();

-- An error as Redshift words it, which the front asks for in place of a statement that it refuses.
create function redshift_functions.fail(state text, message text) returns void language plpgsql as $$
begin
  raise exception '%', message using errcode = state;
end $$;

do $do$
declare
  name text;
begin
  foreach name in array array['mod', 'sum', 'long', 'float_round', 'capitals', 'no_groups', 'ieee', 'blanks', 'case'] loop
    execute format('grant usage on schema redshift_%s to public', name);
  end loop;
end $do$;
