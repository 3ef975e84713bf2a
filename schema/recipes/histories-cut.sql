-- What made tensors constants, cutting off what they were computed from, and what did that cost?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT b.name AS cause, count(*) AS times, sum(b.tensors) AS tensors, sum(b.replays) AS replays,
    sum(b.dur_ns) AS dur_ns
FROM r JOIN barrier AS b ON b.run = r.run GROUP BY b.name ORDER BY sum(b.dur_ns) DESC, cause;
