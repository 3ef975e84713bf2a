-- How much of each iteration was replays?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
facts AS MATERIALIZED (
    SELECT m.seq, m.value AS iteration, 1 AS begins, 0 AS replay, 0 AS cost_ns
    FROM r JOIN mark AS m ON m.run = r.run WHERE m.mark = 0
    UNION ALL
    SELECT o.seq, NULL, 0, o.replay, o.cost_ns FROM r JOIN operator_run AS o ON o.run = r.run),
placed AS (SELECT *, sum(begins) OVER (ORDER BY seq) AS place FROM facts)
SELECT max(iteration) AS iteration, count(*) - sum(begins) AS runs, sum(replay) AS replays,
    sum(CASE WHEN replay = 0 THEN cost_ns END) AS first_ns,
    sum(CASE WHEN replay = 1 THEN cost_ns END) AS replay_ns
FROM placed GROUP BY place ORDER BY place;
