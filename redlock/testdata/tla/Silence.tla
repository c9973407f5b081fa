--------------------------------- MODULE Silence ---------------------------------
(***************************************************************************)
(* When a proxy may found the membership anew: as soon as the record can   *)
(* never have a quorum again, and no sooner. A memory that the record      *)
(* lists may come back, unless its address shows another one, or the proxy *)
(* has not heard it for the record's wait. Where those that may come back  *)
(* are no quorum of the seats, the record is lost. A seat that leaves, and *)
(* a vacant one, has no memory that could come back, and counts as a seat. *)
(*                                                                         *)
(* A process answers or hangs, for whatever reason; it may come back with  *)
(* its memory, or with another one. The proxy asks all masters of its      *)
(* record once a tick, and hears whoever comes back. It may start anew.    *)
(*                                                                         *)
(* That nothing that is founded harms a lock: Found.tla. What a proxy that *)
(* cannot reach a master that others reach may do: there, too. Here a      *)
(* memory that does not answer, answers nobody.                            *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find a founding of   *)
(* which there was no need, or none where nothing else helps. Unseen is    *)
(* what is taken for granted.                                              *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Seats,      \* all seats that there may ever be
  First,      \* the seats of the first record
  Learners,   \* those of them that are learners
  Empty,      \* those of them that are vacant
  Leaves,     \* those of them that are leaving
  Faulty,     \* the seats whose processes hang and restart
  W,          \* the wait, in ticks
  MaxVersion, \* versions of the record, from 1
  Ops,        \* what steps change: a subset of {"leave", "remove", "add", "reseat", "promote"}
  Movable,    \* the seats that they change
  Starts,     \* TRUE: the proxy may start anew
  Unseen,     \* TRUE: the proxy need not have seen the last step
  MShort,        \* silence counts as amnesia after one tick
  MSeatsOut,     \* seats that leave or are vacant are taken out before they are counted
  MLeavingCounts,\* a memory of a seat that leaves may come back
  MVotersOnly,   \* a learner's memory does not count
  MNeverHeard    \* a memory that was never heard is silent since the proxy has started

Mems == Seats \X {0, 1}

VARIABLES
  recs,  \* the chosen records: state and memory <<s, k>> of each seat s
  child, \* the one that is being chosen, and the memories that have accepted it
  ver,   \* the version that each memory shows; 0: none
  proc,  \* for each seat: the memory of its process, and for how long that has not answered; -1: it answers
  known, \* the version that the proxy goes by
  heard  \* for each memory: the ticks since the proxy has heard it, or has known that it is listed
vars == <<recs, child, ver, proc, known, heard>>

Absent == [st |-> "absent", k |-> 0]
NoChild == [r |-> <<>>, by |-> {}]
Occupied(R, s) == R[s].st \in {"voter", "learner"}
Of(R) == {s \in Seats : R[s].st # "absent"}
Quorum(S) == Cardinality(S) \div 2 + 1
Listed(R) == {<<s, R[s].k>> : s \in {x \in Seats : Occupied(R, x)}}
Last == recs[Len(recs)]
Up == {<<s, proc[s].k>> : s \in {x \in Seats : proc[x].hung = -1}}
Max(x, y) == IF x > y THEN x ELSE y
Highest(S) == CHOOSE x \in S : \A y \in S : y <= x

Init ==
  /\ recs = <<[s \in Seats |-> IF s \notin First THEN Absent
                               ELSE [st |-> IF s \in Learners THEN "learner" ELSE IF s \in Empty THEN "vacant" ELSE IF s \in Leaves THEN "leaving" ELSE "voter", k |-> 0]]>>
  /\ child = NoChild
  /\ ver = [m \in Mems |-> IF m[1] \in First \ Empty /\ m[2] = 0 THEN 1 ELSE 0]
  /\ proc = [s \in Seats |-> [k |-> 0, hung |-> -1]]
  /\ known = 1
  /\ heard = [m \in Mems |-> 0]
---------------------------------------------------------------------------------
(* Processes. *)

\* code: none: a process hangs
Hang(s) ==
  /\ s \in Faulty /\ proc[s].hung = -1
  /\ proc' = [proc EXCEPT ![s].hung = 0]
  /\ UNCHANGED <<recs, child, ver, known, heard>>
\* code: none: a process answers again
Return(s) ==
  /\ proc[s].hung # -1
  /\ proc' = [proc EXCEPT ![s].hung = -1]
  /\ heard' = [heard EXCEPT ![<<s, proc[s].k>>] = 0]
  /\ UNCHANGED <<recs, child, ver, known>>
\* code: none: a process is replaced by one without its data
Restart(s) ==
  /\ s \in Faulty /\ proc[s].k = 0
  /\ proc' = [proc EXCEPT ![s] = [k |-> 1, hung |-> -1]]
  /\ UNCHANGED <<recs, child, ver, known, heard>>
---------------------------------------------------------------------------------
(* Steps of the record. Of those that are chosen the order of ballots is of no account: one child is begun after another. *)

Become(s) ==
  LET x == Last[s] IN
  {y \in {[x EXCEPT !.st = "leaving"], Absent, [st |-> "learner", k |-> proc[s].k], [x EXCEPT !.st = "voter"]} :
     \/ "leave" \in Ops /\ x.st \in {"voter", "learner"} /\ y.st = "leaving"
     \/ "remove" \in Ops /\ x.st = "leaving" /\ y.st = "absent"
     \/ "add" \in Ops /\ x.st = "absent" /\ y.st = "learner" /\ proc[s].hung = -1
     \/ "reseat" \in Ops /\ x.st \in {"voter", "learner", "vacant"} /\ y.st = "learner" /\ proc[s].hung = -1 /\ y # x /\ (x.k # y.k \/ x.st = "vacant")
     \/ "promote" \in Ops /\ x.st = "learner" /\ y.st = "voter"}
Children == UNION {{[Last EXCEPT ![s] = y] : y \in Become(s)} : s \in Movable}

\* code: survey.Masters.Step, lua/accept.lua; trace: RecordTrace
Accept(m) ==
  /\ Len(recs) < MaxVersion /\ m \in Up /\ m \in Listed(Last) /\ ver[m] = Len(recs) /\ m \notin child.by
  /\ \E R \in IF child = NoChild THEN {C \in Children : Cardinality(Listed(C)) >= Quorum(Of(C))} ELSE {child.r} :
       LET by == child.by \cup {m} IN
       IF Cardinality(by) >= Quorum(Of(Last))
       THEN recs' = Append(recs, R) /\ child' = NoChild /\ known' = IF Unseen THEN known ELSE Len(recs')
       ELSE recs' = recs /\ child' = [r |-> R, by |-> by] /\ known' = known
  /\ UNCHANGED <<ver, proc, heard>>

\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Tell(m) ==
  /\ m \in Up /\ m \in Listed(Last) /\ ver[m] < Len(recs)
  /\ ver' = [ver EXCEPT ![m] = Len(recs)]
  /\ UNCHANGED <<recs, child, proc, known, heard>>
---------------------------------------------------------------------------------
(* What the proxy finds. It asks the masters of the newest record that it knows, and of one that those show. *)

Shown(v) == Highest({v} \cup {ver[m] : m \in {x \in Up : recs[v][x[1]].st # "absent"}})
Base == Shown(Shown(known))

MayComeBack(R) ==
  {s \in Seats : /\ Occupied(R, s) \/ (MLeavingCounts /\ R[s].st = "leaving")
                 /\ MVotersOnly => R[s].st = "voter"
                 /\ IF proc[s].hung = -1 THEN proc[s].k = R[s].k ELSE heard[<<s, R[s].k>>] < IF MShort THEN 1 ELSE W}
Counted(R) == IF MSeatsOut THEN {s \in Seats : Occupied(R, s)} ELSE Of(R)
Lost(R) == Cardinality(MayComeBack(R)) < Quorum(Counted(R))
(* A founding lists those that are reached. *)
Reached(R) ==
  LET F == {s \in Of(R) : R[s].st # "leaving"}
  IN Cardinality({s \in F : proc[s].hung = -1}) >= Quorum(F)
Founds == Lost(recs[Base]) /\ Reached(recs[Base])

Hears(m) == m \in Up /\ recs[Base][m[1]].st # "absent"
\* code: coordinator.Coordinator.poll, member.HeardAt.Shown, member.HeardAt.Listed, member.HeardAt.MayComeBack, member.Survey.Remains
Tick ==
  /\ known' = Base
  /\ proc' = [s \in Seats |-> IF proc[s].hung \in 0..W - 1 THEN [proc[s] EXCEPT !.hung = @ + 1] ELSE proc[s]]
  /\ heard' = [m \in Mems |-> IF Hears(m) \/ ~(MNeverHeard \/ m \in Listed(recs[Base])) THEN 0
                              ELSE IF heard[m] < W THEN heard[m] + 1 ELSE W]
  /\ UNCHANGED <<recs, child, ver>>
\* code: Open, Client.newCoordinator
Start ==
  /\ Starts
  /\ heard' = [m \in Mems |-> 0]
  /\ UNCHANGED <<recs, child, ver, proc, known>>

Next ==
  \/ Tick \/ Start
  \/ \E s \in Seats : Hang(s) \/ Return(s) \/ Restart(s)
  \/ \E m \in Mems : Accept(m) \/ Tell(m)
Spec == Init /\ [][Next]_vars
---------------------------------------------------------------------------------
(* There is no founding while a quorum of the memories of the newest record answers, or has hung for less than the wait. That record is what one of *)
(* these shows, or the proxy knows: what all have forgotten that were told of it does not come back.                                                  *)
Living == {<<s, proc[s].k>> : s \in {x \in Seats : proc[x].hung < W}}
Newest == recs[Highest({known} \cup {ver[m] : m \in Living})]
NotNeedless == Founds => Cardinality(Living \cap Listed(Newest)) < Quorum(Of(Newest))

(* There is one at once where so many addresses show other memories that the others are no quorum, and after the silence of a wait where so many do *)
(* or are silent.                                                                                                                                    *)
Other(R) == {s \in Seats : Occupied(R, s) /\ proc[s].hung = -1 /\ proc[s].k # R[s].k}
Silence(R) == {s \in Seats : Occupied(R, s) /\ proc[s].hung # -1}
Memories(R, S) == Cardinality(Listed(R)) - Cardinality(S)
NotStuck ==
  LET R == recs[Base] IN
  /\ Reached(R) /\ Memories(R, Other(R)) < Quorum(Of(R)) => Founds
  /\ Reached(R) /\ Memories(R, Other(R) \cup Silence(R)) < Quorum(Of(R)) /\ (\A s \in Silence(R) : heard[<<s, R[s].k>>] = W) => Founds
Same == (First \cap Faulty) \ (Learners \cup Empty \cup Leaves)
Perms == Permutations(Same \ Movable) \cup Permutations(Same \cap Movable)
==================================================================================
