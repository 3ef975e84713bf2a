-- Why were storages evicted, and how many bytes did each reason give back?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT CASE e.reason WHEN 0 THEN 'budget' WHEN 1 THEN 'last reference went' WHEN 2 THEN 'banished'
        WHEN 4 THEN 'taken by an in-place operator' ELSE 'the program asked' END AS reason,
    count(*) AS evictions, sum(e.bytes) AS bytes
FROM r JOIN eviction AS e ON e.run = r.run GROUP BY e.reason ORDER BY e.reason;
