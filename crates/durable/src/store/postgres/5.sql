-- Counts the changes that clients make to a timer, so that one does not undo another's unseen; NULL is 1,
-- so that a timer that nobody changes takes no more room. No claim writes it. A build that does not know
-- of it counts none.
ALTER TABLE tourbillon.timer ADD COLUMN version integer;
