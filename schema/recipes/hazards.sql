-- What could not be replayed safely and was kept, by cause?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT h.name AS cause, count(*) AS times, count(DISTINCT h.tensor) AS tensors
FROM r JOIN hazard AS h ON h.run = r.run GROUP BY h.name ORDER BY times DESC, cause;
