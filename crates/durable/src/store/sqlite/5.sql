-- Counts the changes that clients make to a timer, so that one does not undo another's unseen. A build
-- that does not know of it counts none.
ALTER TABLE tourbillon_timer ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
