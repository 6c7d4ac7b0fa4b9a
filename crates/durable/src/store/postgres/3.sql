-- What the last failed attempt left; NULL is nothing, so that a timer that does not fail takes no
-- more room. It stands behind what a claim changes, and no claim names it: what of it is in the row
-- is not logged again, and what is beside the row is not copied. Of what died, the history has what
-- it takes to run it again. A build that does not know of these columns leaves them as they are.
ALTER TABLE tourbillon.timer ADD COLUMN detail text;
ALTER TABLE tourbillon.history ADD COLUMN payload bytea, ADD COLUMN retry text;
