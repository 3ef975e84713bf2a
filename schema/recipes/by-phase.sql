-- How much of the forward, backward and optimizer phases was replays?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
facts AS MATERIALIZED (
    SELECT m.seq, m.mark, 1 AS begins, 0 AS replay, 0 AS cost_ns
    FROM r JOIN mark AS m ON m.run = r.run WHERE m.mark BETWEEN 0 AND 3
    UNION ALL
    SELECT o.seq, NULL, 0, o.replay, o.cost_ns FROM r JOIN operator_run AS o ON o.run = r.run),
placed AS (SELECT *, sum(begins) OVER (ORDER BY seq) AS place FROM facts),
phases AS (
    SELECT max(mark) AS mark, sum(replay) AS replays,
        sum(CASE WHEN replay = 0 THEN cost_ns ELSE 0 END) AS first_ns,
        sum(CASE WHEN replay = 1 THEN cost_ns ELSE 0 END) AS replay_ns
    FROM placed GROUP BY place)
SELECT CASE mark WHEN 1 THEN 'forward' WHEN 2 THEN 'backward' WHEN 3 THEN 'optimizer'
        ELSE 'outside' END AS phase,
    sum(replays) AS replays, sum(first_ns) AS first_ns, sum(replay_ns) AS replay_ns,
    1.0 + sum(replay_ns) * 1.0 / sum(first_ns) AS slowdown
FROM phases GROUP BY phase ORDER BY phase;
