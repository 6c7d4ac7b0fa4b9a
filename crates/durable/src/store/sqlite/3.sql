-- What the last failed attempt left; and of what died, what it takes to run it again. A build that
-- does not know of them leaves them as they are.
ALTER TABLE tourbillon_timer ADD COLUMN detail TEXT NOT NULL DEFAULT '';
ALTER TABLE tourbillon_history ADD COLUMN payload BLOB;
ALTER TABLE tourbillon_history ADD COLUMN retry TEXT;
