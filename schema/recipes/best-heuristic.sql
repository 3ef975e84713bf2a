-- Which heuristic was best at each budget of a sweep?
SELECT trace, budget_bytes, budget_share, heuristic, min(slowdown) AS slowdown, evictions, rematerializations
FROM run WHERE kind = 'sim' AND result = 'ok' AND budget_bytes IS NOT NULL
GROUP BY trace_hash, budget_bytes ORDER BY trace, budget_bytes;
