-- How much of each run did choosing victims and recording take?
SELECT id AS run, heuristic, search, wall_ns, search_ns, record_ns,
    100.0 * search_ns / wall_ns AS search_percent, 100.0 * record_ns / wall_ns AS record_percent,
    search_ns * 1.0 / nullif(evictions, 0) AS search_ns_per_eviction
FROM run WHERE kind = 'live' ORDER BY id;
