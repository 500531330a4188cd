-- Assets that runs kept before it was counted who names a blob. The log of such a run says which, in
-- the last words of a line; whoever sweeps blobs without a name must not take them for such.
INSERT OR IGNORE INTO blob_names
SELECT substr(text, -64), run
FROM (SELECT run, CAST(bytes AS TEXT) ->> '$.text' AS text FROM events
      WHERE instr(bytes, CAST(' is kept as blob ' AS BLOB)) > 0)
WHERE text LIKE 'asset %' AND substr(text, -81, 17) = ' is kept as blob '
    AND substr(text, -64) NOT GLOB '*[^0-9a-f]*';
