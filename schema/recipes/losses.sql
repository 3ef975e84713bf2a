-- What is missing from each run: lost events, and parts that were not recorded?
SELECT run, 'lost' AS what, reason, count, NULL AS begin_ts_ns, NULL AS end_ts_ns FROM loss
UNION ALL
SELECT run, 'window', opened_by || ' to ' || coalesce(closed_by, 'end'), skipped, begin_ts_ns, end_ts_ns
FROM recording_window ORDER BY run, what, begin_ts_ns;
