-- How much more did the allocator hold than was counted as tensors, over time?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT (a.ts_ns - (SELECT base_ts_ns FROM run WHERE id = r.run)) AS at_ns, a.in_use AS allocator_bytes,
    a.counted AS counted_bytes, a.in_use - a.counted AS difference_bytes, a.peak AS peak_bytes
FROM r JOIN allocator AS a ON a.run = r.run ORDER BY a.seq;
