-- Which evictions could as well have hit another storage: whose score was closest to the victim's?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
pairs AS (
    SELECT c.decision, max(CASE WHEN c.rank = 0 THEN c.storage END) AS victim,
        max(CASE WHEN c.rank = 0 THEN c.score END) AS score,
        max(CASE WHEN c.rank = 1 THEN c.storage END) AS next_best,
        max(CASE WHEN c.rank = 1 THEN c.score END) AS next_score
    FROM r JOIN candidate AS c ON c.run = r.run WHERE c.rank <= 1 GROUP BY c.decision)
SELECT * FROM pairs WHERE next_best IS NOT NULL ORDER BY next_score / score, decision LIMIT 20;
