------------------------------- MODULE RecordTrace -------------------------------
(***************************************************************************)
(* Is what the simulation has recorded of the membership a behaviour of    *)
(* Step, Change and Found? Each event says what a master shows from then   *)
(* on, and one of the actions here must explain it: the memory is gone, a  *)
(* new one has got its name, a ballot was promised, a child was accepted,  *)
(* or the memory was told a record that is chosen. Besides, a master may   *)
(* restart with its data, and its memory does nothing any more, or be of   *)
(* another fleet, and take no part.                                        *)
(*                                                                         *)
(* A child may be accepted with a ballot that is not lower than the        *)
(* promised one, by a memory that its parent lists and that shows this     *)
(* parent (of a founding: that it lists itself, and that shows an older    *)
(* generation). With each ballot goes one child: one that a quorum's       *)
(* promises allow, as in Step. What it changes is what Change allows, and  *)
(* the waits have passed in full, by the observed times, since the record  *)
(* was chosen that began them. A memory is told only what a quorum has     *)
(* accepted with one ballot, and never goes back.                          *)
(*                                                                         *)
(* Moments are in microseconds of true time, the times of records in       *)
(* milliseconds. Memories, records and ballots are numbers; 0 is none.     *)
(* Memories are numbered as they came, ballots by their order.             *)
(***************************************************************************)
EXTENDS Replay

CONSTANT Masters

VARIABLES
  shown,    \* by master: its memory, the record that it has settled on, the child that it has accepted with which ballot, the ballot that it has promised, and its process
  memories, \* how many there have been
  promises, \* who has promised which ballot, showing which record, and what it had accepted then
  accepted, \* who has ever accepted which child with which ballot
  told,     \* which memory was ever told which record
  chosen    \* by record: when a quorum had accepted it with one ballot. 0: it has not
vars == <<replay, shown, memories, promises, accepted, told, chosen>>

(* TLC need not look for several ways through what is a value. *)
Value(p) == p = TRUE

Nothing == [memory |-> 0, rec |-> 0, ballot |-> 0, child |-> 0, promised |-> 0, process |-> 0]

(* Records. A seat is [n, name, memory, st, since]; st is "v" for voter, "l" for learner, "-" for vacant, "x" for leaving. *)
R(r) == Trace.records[r]
Seats(r) == Range(R(r).seats)
Founds(r) == R(r).v = 0
Listed(r) == {s.memory : s \in Seats(r)} \ {0}
Quorum(r) == Cardinality(Seats(r)) \div 2 + 1
Electors(r) == Listed(IF Founds(r) THEN r ELSE R(r).parent)
Enough(r) == Quorum(IF Founds(r) THEN r ELSE R(r).parent)
SameLineage(r, q) == R(r).gen = R(q).gen /\ R(r).lineage = R(q).lineage
Newer(r, q) == IF q = 0 THEN TRUE ELSE R(r).gen > R(q).gen \/ (SameLineage(r, q) /\ R(r).v > R(q).v)
Chosen == {r \in DOMAIN chosen : chosen[r] # 0}

(* A record by itself. *)
Sound(r) ==
  LET occupied == {s \in Seats(r) : s.st \in {"v", "l"}} IN
  /\ R(r).wait >= R(r).maxTTL
  /\ \A s \in Seats(r) : s.st \in {"v", "l", "-", "x"} /\ (s.memory # 0 <=> s \in occupied)
  /\ Cardinality({s.n : s \in Seats(r)}) = Len(R(r).seats)
  /\ Cardinality(Listed(r)) = Cardinality(occupied)
  /\ Founds(r) <=> R(r).parent = 0

(* The wait in force at P has passed at n since version v of its lineage was chosen. *)
Waited(P, v, n) == \E r \in Chosen : SameLineage(r, P) /\ R(r).v = v /\ n - chosen[r] >= 1000 * R(P).wait

(* A copy to the memory has begun, and a quorum of voters can be its sources. Trace has what it must have been given. *)
Recovered(P, m) == m \in Trace.copied /\ Cardinality({x \in Seats(P) : x.st = "v"}) >= Quorum(P)

StepOfTimes(P, C, n) ==
  LET p == R(P)
      c == R(C)
  IN /\ c.ttlSince = IF c.maxTTL < p.maxTTL \/ c.wait > p.wait THEN c.v ELSE p.ttlSince
     /\ c.maxTTL # p.maxTTL => c.wait = p.wait
     /\ c.wait > p.wait => c.maxTTL = p.maxTTL
     /\ c.wait < p.wait => c.maxTTL = p.maxTTL /\ Waited(P, p.ttlSince, n)

StepOfSeat(P, C, s, n) ==
  LET before == {x \in Seats(P) : x.n = s.n}
      new == s.since = R(C).v
  IN IF before = {} THEN s.st \in {"l", "-"} /\ new
     ELSE \A x \in before :
       /\ s.name = x.name
       /\ IF s.st = x.st /\ s.memory = x.memory THEN s.since = x.since
          ELSE IF s.st = "v" THEN x.st = "l" /\ s.memory = x.memory /\ s.since = x.since /\ (Waited(P, x.since, n) \/ Recovered(P, s.memory))
          ELSE x.st # "x" /\ new

StepAllowed(C, n) ==
  LET P == R(C).parent
      numbers(r) == {s.n : s \in Seats(r)}
  IN /\ SameLineage(C, P) /\ R(C).v = R(P).v + 1
     /\ StepOfTimes(P, C, n)
     /\ \A s \in Seats(C) : StepOfSeat(P, C, s, n)
     /\ \A x \in Seats(P) : x.n \notin numbers(C) => x.st = "x" /\ Waited(P, x.since, n)
     /\ R(C).roster = R(P).roster + (IF numbers(C) = numbers(P) THEN 0 ELSE 1)
     /\ Cardinality(Listed(C)) >= Quorum(C)

(* A founding lists learners, but for a bootstrap of masters that are new. Where a membership was before, no quorum of it is left, and what it may have allowed    *)
(* ends within the wait: nothing was granted under a record of which no quorum of its memories was told. Where a quorum of its memories is not known to be dead, *)
(* because their processes show others by now, some proxies may find that out later.                                                                              *)
Recheck(wait) == LET w == wait \div 4 IN IF w < 1000 THEN 1000 ELSE IF w > 3000 THEN 3000 ELSE w
FoundingAllowed(F) ==
  LET earlier == {r \in Chosen : R(r).gen < R(F).gen}
      inForce == {r \in earlier : Cardinality({m \in Listed(r) : <<m, r>> \in told}) >= Quorum(r)}
      last(some) == {r \in some : \A q \in some : chosen[q] <= chosen[r]}
      left(r) == Cardinality(Listed(F) \cap Listed(r))
      dead(r) == {x \in Seats(r) : \E s \in Seats(F) : s.n = x.n /\ s.memory # x.memory /\ s.memory # 0 /\ x.memory # 0
                                     /\ Trace.process[s.memory] = Trace.process[x.memory]}
      \* The founder may have missed records that raised the wait, as long as none of them raised the ceiling.
      between(r, l) == {q \in Chosen : SameLineage(q, l) /\ R(q).v > R(r).v /\ R(q).v <= R(l).v}
      before(l) == {r \in Chosen : SameLineage(r, l) /\ R(r).v <= R(l).v /\ \A q \in between(r, l) : R(q).maxTTL <= R(r).maxTTL}
      outlasts(l) == /\ \E r \in before(l) : R(F).wait >= R(r).wait
                     /\ \E r \in earlier : left(r) < Quorum(r) /\ (Cardinality(dead(r)) >= Quorum(r) \/ R(F).wait >= R(l).maxTTL + Recheck(R(l).maxTTL))
  IN /\ \A s \in Seats(F) : s.since = 0 /\ (s.st \in {"l", "-"} \/ (s.st = "v" /\ earlier = {}))
     /\ R(F).ttlSince = 0
     /\ inForce # {} => \E l \in last(earlier) \cup last(inForce) : outlasts(l)

(* May the child be proposed with this ballot? Enough have promised it, and if some of those had accepted a child of the same kind that can have been chosen,  *)
(* it is that of the highest ballot. It can have been chosen if those that show it and those that have not answered are enough. A founding of which some      *)
(* memories are gone can never be chosen, and does not count. A child that is chosen may be proposed again: whoever has settled on it says so.               *)
Proposable(c, b, n) ==
  \/ c \in Chosen
  \/ /\ \/ \E y \in accepted : y.child = c
        \/ Sound(c) /\ IF Founds(c) THEN FoundingAllowed(c) ELSE StepAllowed(c, n)
     /\ \E Q \in SUBSET {x \in promises : x.ballot = b /\ x.memory \in Electors(c) /\ (Founds(c) \/ x.rec = R(c).parent)} :
          LET by == {x.memory : x \in Q}
              show(r) == Cardinality({x.memory : x \in {y \in Q : y.had.child = r}})
              can(r) == IF Founds(r) THEN Cardinality(Listed(r) \cap by) >= Quorum(r)
                        ELSE show(r) + Cardinality(Electors(r)) - Cardinality(by) >= Enough(r)
              old == {x.had : x \in {y \in Q : y.had.child # 0 /\ Founds(y.had.child) = Founds(c) /\ can(y.had.child)}}
          IN /\ Cardinality(by) >= Enough(c)
             /\ old = {} \/ \E y \in old : y.child = c /\ \A z \in old : z.ballot <= y.ballot
---------------------------------------------------------------------------------
(* x is what the master has shown, s what it shows now. *)

(* A memory dies with the process that has named it, also if the next one finds its data. That of another fleet takes no part. *)
Lives(x, s) == x.memory # 0 /\ s.process = x.process /\ Trace.process[x.memory] = x.process /\ (x.rec = 0 \/ x.rec \in Chosen)

Restart(x, s) ==
  /\ x.memory # 0 /\ s.process # x.process
  /\ s = [x EXCEPT !.process = s.process]
  /\ UNCHANGED <<memories, promises, accepted, told, chosen>>

Forget(s) == s = Nothing /\ UNCHANGED <<memories, promises, accepted, told, chosen>>

Name(s) ==
  /\ s.memory # 0 /\ s = [Nothing EXCEPT !.memory = memories + 1, !.process = Trace.process[s.memory]]
  /\ memories' = memories + 1
  /\ UNCHANGED <<promises, accepted, told, chosen>>

(* A name leads to a master of another fleet, whose only master it is. *)
Elsewhere(x, s) ==
  /\ s.memory = memories + 1 /\ s.rec # 0 /\ Founds(s.rec) /\ Len(R(s.rec).seats) = 1 /\ Listed(s.rec) = {s.memory}
  /\ x = Nothing /\ s = [Nothing EXCEPT !.memory = s.memory, !.rec = s.rec, !.process = Trace.process[s.memory]]
  /\ memories' = memories + 1
  /\ UNCHANGED <<promises, accepted, told, chosen>>

Promise(x, s) ==
  /\ s.promised > x.promised
  /\ s = [x EXCEPT !.promised = s.promised]
  /\ promises' = promises \cup {[memory |-> x.memory, rec |-> x.rec, ballot |-> s.promised, had |-> [ballot |-> x.ballot, child |-> x.child]]}
  /\ UNCHANGED <<memories, accepted, told, chosen>>

Accept(x, s, n) ==
  LET c == s.child
      b == s.ballot
      with == {y \in accepted : y.ballot = b}
      now == with \cup {[memory |-> x.memory, ballot |-> b, child |-> c]}
  IN /\ c # 0 /\ b >= x.promised
     /\ s = [x EXCEPT !.ballot = b, !.child = c, !.promised = b]
     /\ x.memory \in Electors(c)
     /\ IF ~Founds(c) THEN x.rec = R(c).parent ELSE x.rec # 0 => R(x.rec).gen < R(c).gen
     /\ Value(IF with = {} THEN Proposable(c, b, n) ELSE \A y \in with : y.child = c)
     /\ accepted' = accepted \cup now
     /\ chosen' = IF chosen[c] = 0 /\ Cardinality(now) >= Enough(c) THEN [chosen EXCEPT ![c] = n] ELSE chosen
     /\ UNCHANGED <<memories, promises, told>>

Learn(x, s) ==
  /\ s.rec # 0
  /\ s = [Nothing EXCEPT !.memory = x.memory, !.rec = s.rec, !.process = x.process]
  /\ s.rec \in Chosen /\ Value(Newer(s.rec, x.rec)) /\ x.memory \in Listed(s.rec)
  /\ told' = told \cup {<<x.memory, s.rec>>}
  /\ UNCHANGED <<memories, promises, accepted, chosen>>

(* No record has two chosen children. *)
OneChild == \A r, q \in Chosen : r # q /\ R(r).parent # 0 => R(r).parent # R(q).parent

TInit ==
  /\ RInit
  /\ shown = [m \in Masters |-> Nothing]
  /\ memories = 0 /\ promises = {} /\ accepted = {} /\ told = {}
  /\ chosen = [r \in DOMAIN Trace.records |-> 0]

TNext == \E c \in Ways :
  /\ LET e == EventOf(c)
         x == shown[e[2]]
         s == [memory |-> e[3], rec |-> e[4], ballot |-> e[5], child |-> e[6], promised |-> e[7], process |-> e[8]]
     IN /\ Forget(s) \/ Restart(x, s) \/ Name(s) \/ Elsewhere(x, s) \/ (Lives(x, s) /\ (Promise(x, s) \/ Accept(x, s, e[1]) \/ Learn(x, s)))
        /\ shown' = [shown EXCEPT ![e[2]] = s]
  /\ Follow(c)
  /\ OneChild'
  /\ Accepted(c)

TSpec == TInit /\ [][TNext]_vars
=================================================================================
