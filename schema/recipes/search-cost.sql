-- What did choosing victims cost as the number of candidates grew?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
sized AS MATERIALIZED (
    SELECT d.candidates, d.evaluations, d.search_ns,
        CASE WHEN d.candidates < 10 THEN 1 WHEN d.candidates < 100 THEN 10
            WHEN d.candidates < 1000 THEN 100 WHEN d.candidates < 10000 THEN 1000
            WHEN d.candidates < 100000 THEN 10000 ELSE 100000 END AS at_least
    FROM r JOIN decision AS d ON d.run = r.run)
SELECT at_least AS candidates_from, count(*) AS decisions, avg(evaluations) AS evaluations,
    avg(search_ns) AS search_ns, max(search_ns) AS most_ns
FROM sized GROUP BY at_least ORDER BY at_least;
