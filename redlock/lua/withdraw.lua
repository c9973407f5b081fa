-- Takes the intent of waiting writers away (op_shared.go).
--
-- KEYS   the resource
-- reply  1
-- from   writeWithdraw

--include leave
leave(KEYS[1], 'writer') --mutant:who-takes-the-intent-away-takes-a-reader-away
shorten()
return 1
