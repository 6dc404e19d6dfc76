-- One entity a row, with the codes of its categories.
CREATE TABLE entity (
    peid bigint NOT NULL,
    categories int[] NOT NULL,
    geom geometry NOT NULL
);

-- One neighborhood, stage by stage. A stage is
--   {"refStages": [1, 2], "categories": [3, 7], "join": "ST_Touches(r.geom, e.geom)"}
-- where the join was written for this condition, so that the planner sees the spatial functions
-- and uses the index. With "frontier": [2] only the members of those stages are joined, because
-- the others are known to reach nothing new; all references are excluded all the same.
CREATE FUNCTION resolve_neighborhood(refs bigint[], stages jsonb)
RETURNS TABLE (peid bigint, stage_no int)
LANGUAGE plpgsql AS $function$
DECLARE
    stage jsonb;
    number int := 0;
    reference_peids bigint[];
    joined_peids bigint[];
    selected bigint[];
    found_peids bigint[] := '{}';
    found_stages int[] := '{}';
BEGIN
    FOR stage IN SELECT value FROM jsonb_array_elements(stages) LOOP
        number := number + 1;
        IF number = 1 THEN
            reference_peids := refs;
        ELSE
            reference_peids := ARRAY(
                SELECT DISTINCT found.p FROM unnest(found_peids, found_stages) AS found(p, s)
                WHERE found.s = ANY (
                    ARRAY(SELECT value::int FROM jsonb_array_elements_text(stage->'refStages'))));
        END IF;
        joined_peids := reference_peids;
        IF stage ? 'frontier' THEN
            joined_peids := ARRAY(
                SELECT DISTINCT found.p FROM unnest(found_peids, found_stages) AS found(p, s)
                WHERE found.s = ANY (
                    ARRAY(SELECT value::int FROM jsonb_array_elements_text(stage->'frontier'))));
        END IF;
        EXECUTE format($query$
            SELECT ARRAY(
                SELECT DISTINCT e.peid
                FROM entity r JOIN entity e ON %s
                WHERE r.peid = ANY ($1) AND e.categories && $2 AND e.peid <> ALL ($3))
            $query$, stage->>'join')
        INTO selected
        USING joined_peids,
            ARRAY(SELECT value::int FROM jsonb_array_elements_text(stage->'categories')),
            reference_peids;
        found_peids := found_peids || selected;
        found_stages := found_stages || array_fill(number, ARRAY[cardinality(selected)]);
    END LOOP;
    RETURN QUERY SELECT found.p, found.s FROM unnest(found_peids, found_stages) AS found(p, s);
END
$function$;
