-- What did each kind of operator cost, in first runs and in replays?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT o.name, sum(o.replay = 0) AS first_runs, sum(o.replay = 1) AS replays,
    sum(CASE WHEN o.replay = 0 THEN o.cost_ns END) AS first_ns,
    sum(CASE WHEN o.replay = 1 THEN o.cost_ns END) AS replay_ns
FROM r JOIN operator_run AS o ON o.run = r.run GROUP BY o.name ORDER BY sum(o.cost_ns) DESC, o.name;
