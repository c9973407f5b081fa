-------------------------------- MODULE Versions --------------------------------
(***************************************************************************)
(* Values that change from holder to holder: a hash, a set or a sorted set *)
(* of a lock library is one value on the masters, and each change replaces *)
(* the whole of it, guarded by the whole of it. May two changes of the same*)
(* value both be made, or a second lock begin while the first is held, if  *)
(* masters that have missed changes are given the newest value?            *)
(*                                                                         *)
(* The rules: each change has a value of its own, which says its lineage,  *)
(* begun where the key was absent, and its generation, one more than that  *)
(* of the value it replaces.                                               *)
(* - A master makes a change if it holds what the guard says: nothing, or  *)
(*   the value. A change is made when a quorum has made it and its proxy   *)
(*   has seen so. It may be given up at any moment before.                 *)
(* - A change that was given up is undone, master by master or never: the  *)
(*   old value is put back where the new one still is.                     *)
(*   A deletion is not: its proxy goes on with it, on every master.        *)
(* - The value of a change that was made is given to masters with a value  *)
(*   of the same lineage whose generation is not higher. This is no vote.  *)
(* - Whoever finds the value of a change makes the same change on masters  *)
(*   with the value that it replaces, whose trace it has. This is no vote. *)
(*                                                                         *)
(* Commands may come at any time, or never. A guard may be any value that a*)
(* master holds: who reads may be late, and what is read may belong to a   *)
(* change that is given up. Left out: ends, and masters that forget, which *)
(* other modules have.                                                     *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule.                               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Masters,
  Most,          \* how many changes there are
  Repairs,       \* whether masters are given the newest value
  MAnyLineage,   \* a value of another lineage is replaced, too
  MNewer,        \* a value of a higher generation is replaced, too
  MNotMade,      \* the value of a change that may be given up yet is given to masters, too
  MUndoBlind,    \* an undo does not compare
  Helps,         \* whether those who find a change make it
  WellRead,      \* a change replaces or deletes only what was made by then
  MHelpAny,      \* a change is made over any older value of its lineage
  MHelpNewer,    \* a change is made over whatever is there now
  MFinderDeletes,\* whoever finds the value of a minority deletes it
  MGivesBack,    \* who gives up a deletion puts the value back, without comparing
  MDeletionStays \* nobody goes on with a deletion

Changes == 1..Most
Nothing == 0
Quorum == Cardinality(Masters) \div 2 + 1

VARIABLES
  key,     \* what each master holds: Nothing, or the change that has made it
  change   \* the changes that were begun, in order: what each replaces, whether it deletes, who has made it, and what became of it
vars == <<key, change>>

Begun == DOMAIN change
RECURSIVE Lineage(_), Generation(_)
Lineage(c) == IF change[c].was = Nothing THEN c ELSE Lineage(change[c].was)
Generation(c) == IF change[c].was = Nothing THEN 0 ELSE 1 + Generation(change[c].was)

Init == key = [m \in Masters |-> Nothing] /\ change = <<>>

(* A change counts from the moment when the first master makes it. *)
\* code: Client.beginCommitLocked, NextVersion, Change.becomes, lua/commit.lua
Begin(m, deletes) ==
  /\ Cardinality(Begun) < Most
  /\ key[m] = Nothing => ~deletes
  /\ IF WellRead /\ key[m] # Nothing THEN change[key[m]].is = "made" ELSE TRUE
  /\ change' = Append(change, [was |-> key[m], deletes |-> deletes, by |-> {m}, is |-> "open"])
  /\ key' = [key EXCEPT ![m] = IF deletes THEN Nothing ELSE Cardinality(Begun) + 1]

\* code: writeCommit, lua/commit.lua, settling.forwardLocked
Make(c, m) ==
  /\ m \notin change[c].by /\ key[m] = change[c].was
  /\ key' = [key EXCEPT ![m] = IF change[c].deletes THEN Nothing ELSE c]
  /\ change' = [change EXCEPT ![c].by = @ \cup {m}]

\* code: Client.commitDecided, Client.committedLocked, Client.deletedLocked
Decide(c) ==
  /\ change[c].is = "open"
  /\ \/ Cardinality(change[c].by) >= Quorum /\ change' = [change EXCEPT ![c].is = "made"]
     \/ change' = [change EXCEPT ![c].is = "given up"]
  /\ UNCHANGED key

\* code: Client.takeBackCommitLocked, Change.undo, settling.takeBackLocked, lua/undo.lua
Undo(c, m) ==
  /\ change[c].is = "given up" /\ ~change[c].deletes
  /\ key[m] = c \/ (MUndoBlind /\ m \in change[c].by)
  /\ key' = [key EXCEPT ![m] = change[c].was]
  /\ UNCHANGED change

\* code: Client.refillKeysLocked, commit.missed, follows
Repair(c, m) ==
  /\ Repairs /\ ~change[c].deletes
  /\ change[c].is = "made" \/ MNotMade
  /\ key[m] \notin {Nothing, c}
  /\ Lineage(key[m]) = Lineage(c) \/ MAnyLineage
  /\ Generation(key[m]) <= Generation(c) \/ MNewer
  /\ key' = [key EXCEPT ![m] = c]
  /\ UNCHANGED change

(* What it changes is compared. What became of the change may be anything. *)
\* code: settling.helpLocked, settling.launch
Help(c, m) ==
  /\ Helps /\ ~change[c].deletes
  /\ c \in {key[n] : n \in Masters}
  /\ \/ key[m] = change[c].was /\ key[m] # Nothing
     \/ MHelpAny /\ key[m] # Nothing /\ Lineage(key[m]) = Lineage(c) /\ Generation(key[m]) < Generation(c)
     \/ MHelpNewer /\ key[m] # Nothing
  /\ key' = [key EXCEPT ![m] = c]
  /\ UNCHANGED change

Holds(x) == {m \in Masters : key[m] = x}
\* code: none: only MFinderDeletes has it
FinderDeletes(m) ==
  /\ MFinderDeletes /\ key[m] # Nothing /\ Cardinality(Holds(key[m])) < Quorum
  /\ key' = [key EXCEPT ![m] = Nothing]
  /\ UNCHANGED change

\* code: none: only MGivesBack has it
GivesBack(c, m) ==
  /\ MGivesBack /\ change[c].deletes /\ change[c].is = "given up" /\ m \in change[c].by
  /\ key' = [key EXCEPT ![m] = change[c].was]
  /\ UNCHANGED change

Next ==
  \/ \E m \in Masters, deletes \in BOOLEAN : Begin(m, deletes)
  \/ \E m \in Masters : FinderDeletes(m)
  \/ \E c \in Begun : Decide(c) \/ \E m \in Masters : Make(c, m) \/ Undo(c, m) \/ Repair(c, m) \/ Help(c, m) \/ GivesBack(c, m)
Spec == Init /\ [][Next]_vars

Made == {c \in Begun : change[c].is = "made"}
(* No value is replaced twice. *)
OneSuccessor == \A c, d \in Made : c # d /\ change[c].was = change[d].was => change[c].was = Nothing
(* A lock is held until somebody begins to delete its value, or one that came of it. *)
RECURSIVE CameOf(_)
CameOf(c) == {c} \cup IF change[c].was = Nothing THEN {} ELSE CameOf(change[c].was)
Deleted(c) == \E d \in Begun : change[d].deletes /\ c \in CameOf(change[d].was)
OneLineage == Cardinality({Lineage(c) : c \in {x \in Made : ~change[x].deletes /\ ~Deleted(x)}}) <= 1
(* The values of a lock that count, or that a reader may find, come one from the other. *)
Counts == {c \in Begun : ~change[c].deletes /\ (change[c].is = "made" \/ Cardinality(Holds(c)) >= Quorum)}
OneChain == \A c, d \in Counts : Lineage(c) = Lineage(d) => c \in CameOf(d) \/ d \in CameOf(c)
(* A quorum agrees when all that was given up is undone, and what was deleted is gone everywhere. *)
Over(c) ==
  IF change[c].deletes THEN Holds(change[c].was) = {} \/ (MDeletionStays /\ change[c].is = "given up")
  ELSE change[c].is = "made" \/ Holds(c) = {}
Settles == (\A c \in Begun : change[c].is # "open" /\ Over(c)) => \E x \in {Nothing} \cup Begun : Cardinality(Holds(x)) >= Quorum
Perms == Permutations(Masters)
=================================================================================
