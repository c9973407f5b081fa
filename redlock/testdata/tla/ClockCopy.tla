-------------------------------- MODULE ClockCopy --------------------------------
(***************************************************************************)
(* A master's clock steps, and its keys end early. A step of the record    *)
(* makes it a learner, with the same memory; a copier gives it what a      *)
(* quorum of voters hold, and it votes again. Whose clocks have to be in   *)
(* step for that, and what does the copier know after it?                  *)
(*                                                                         *)
(* 1. The sources are Q voters whose clocks the copier counts, when it     *)
(*    begins, and still when it proposes the promotion.                    *)
(* 2. The learner gets a key with what the source has left of it, and the  *)
(*    tolerance anew: of the source's a part may be used up.               *)
(* 3. The copier counts the new voter's clock, if its fresh readings there *)
(*    began before the copy, and show no gain since. Others are told.      *)
(* As in Copy.tla, a source counts that shows, as settled, the record that *)
(* lists the learner, or a later one; the learner is written to where it   *)
(* shows such a record; and all votes of a round are under one record.     *)
(*                                                                         *)
(* A lock is held at the start, with keys on a quorum, on masters that are *)
(* in step and watched. No second one may be granted while its lease lasts.*)
(* Attempts that fail are taken back, or, with Extends, what they have set *)
(* is left, and an EXTEND, a renewal or a HOLD finds it. They count only   *)
(* where the clock is in step, as a LOCK does: a master that is not may    *)
(* have ended the key of somebody else before it set this one.             *)
(*                                                                         *)
(* How a proxy comes to count a clock is in Clock.tla: here it is told in  *)
(* one action, by one that counts it. As the clock is not set back, what a *)
(* proxy has read is one number: what the clock had gained when it began.  *)
(* What a gain costs lasts for ever, or until the proxy is told, or has    *)
(* copied. Any proxy may demote any master for no reason, while a quorum   *)
(* of voters is left. What each step of the record decides is one action;  *)
(* memories that forget, and commands that come late, are in Copy.tla.     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Masters, Proxies, Nobody,
  Holds,    \* the masters that have the key of the lock that is held
  Steppable,\* whose clocks step
  Goes,     \* which may be demoted
  TTL,      \* of every lock, in ticks
  Tol,      \* the tolerance
  MaxGain,  \* by how much clocks go forward, in all
  MaxVersion, \* of the record
  Restarts, \* how many proxies are replaced by new ones
  Extends,  \* TRUE: what a master executes without a vote is left there, and found by an EXTEND or a HOLD
  MAnySource,  \* sources are masters whose clocks the copier does not count
  MNoLook,     \* the promotion does not look at the sources' clocks again
  MNoPadAnew,  \* the learner gets a key with what is left of it
  MLateRing,   \* the copier's readings of the learner began after the copy
  MBelieves,   \* a proxy counts the clock of a master that another one has copied to, and is not told
  MFoundCounts \* an EXTEND, a renewal or a HOLD that finds its token counts, whatever the clock

Quorum == Cardinality(Masters) \div 2 + 1
Max(x, y) == IF x > y THEN x ELSE y
None == -1

VARIABLES
  learners, \* of each record
  rec,   \* the record that each master shows as settled
  key,   \* what each master holds: whose, and the ticks that its clock leaves it
  held,  \* the ticks that are left of the lease of the first lock
  ask,   \* the attempt of a second one: who asks, under which record, and the votes
  two,   \* TRUE: it was granted, and the first one still held
  gain,  \* of each master's clock
  know,  \* what each proxy has read of each clock: whether it counts it, since which gain; its fresh readings
  cop,   \* the copy
  news   \* how many proxies were replaced
vars == <<learners, rec, key, held, ask, two, gain, know, cop, news>>

NoKey == [of |-> Nobody, left |-> 0]
NoAsk == [by |-> Nobody, v |-> 0, votes |-> {}]
NoCopy == [by |-> Nobody, m |-> Nobody, v |-> 0, from |-> {}, todo |-> {}, of |-> Nobody, left |-> 0, fresh |-> None, done |-> FALSE]
Last == learners[Len(learners)]

Init ==
  /\ learners = <<{}>>
  /\ rec = [m \in Masters |-> 1]
  /\ key = [m \in Masters |-> IF m \in Holds THEN [of |-> "first", left |-> TTL + Tol] ELSE NoKey]
  /\ held = TTL
  /\ ask = NoAsk /\ two = FALSE /\ cop = NoCopy
  /\ gain = [m \in Masters |-> 0]
  /\ know = [p \in Proxies |-> [m \in Masters |-> [counts |-> TRUE, since |-> 0, fresh |-> None]]]
  /\ news = 0
---------------------------------------------------------------------------------
(* Clocks. *)

Read(k, m) ==
  IF k.counts /\ gain[m] - k.since <= Tol THEN k
  ELSE IF ~k.counts /\ k.fresh # None /\ gain[m] - k.fresh <= Tol THEN k
  ELSE [counts |-> FALSE, since |-> 0, fresh |-> gain[m]]
Reads(p, S) == know' = [know EXCEPT ![p] = [m \in Masters |-> IF m \in S THEN Read(know[p][m], m) ELSE know[p][m]]]
Counts(p, m) == Read(know[p][m], m).counts

\* code: clockGuard.judge, lane.saw, lane.takeReported
Look(p, m) ==
  /\ Reads(p, {m})
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, cop, news>>

(* q tells p how much of the tolerance is used up. *)
\* code: clockGuard.trust, clock.Ring.Inherit
Told(p, q, m) ==
  LET k == Read(know[p][m], m)
      since == know[q][m].since - (gain[m] - k.fresh)
  IN
  /\ ~k.counts /\ know[p][m].fresh = k.fresh /\ Counts(q, m) /\ gain[m] - since <= Tol
  /\ know' = [know EXCEPT ![p][m] = [counts |-> TRUE, since |-> since, fresh |-> None]]
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, cop, news>>

\* code: none: only MBelieves has it
Believes(p, m) ==
  /\ MBelieves /\ m \notin Last /\ m \in UNION {learners[v] : v \in 1..Len(learners)}
  /\ know' = [know EXCEPT ![p][m] = [counts |-> TRUE, since |-> gain[m], fresh |-> None]]
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, cop, news>>

\* code: Open, newClockGuard
Restart(p) ==
  /\ news < Restarts /\ news' = news + 1
  /\ ask.by # p /\ cop.by # p
  /\ know' = [know EXCEPT ![p] = [m \in Masters |-> [counts |-> FALSE, since |-> 0, fresh |-> None]]]
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, cop>>

Left(k, d) == IF k.left <= d THEN NoKey ELSE [k EXCEPT !.left = @ - d]
RECURSIVE Sum(_)
Sum(S) == IF S = {} THEN 0 ELSE LET m == CHOOSE x \in S : TRUE IN gain[m] + Sum(S \ {m})

\* code: none: a master's clock goes forward
Forward(m, d) ==
  /\ Sum(Masters) + d <= MaxGain
  /\ gain' = [gain EXCEPT ![m] = @ + d]
  /\ key' = [key EXCEPT ![m] = Left(@, d)]
  /\ UNCHANGED <<learners, rec, held, ask, two, know, cop, news>>

\* code: none: time passes
Tick ==
  /\ held > 0 /\ held' = held - 1
  /\ key' = [m \in Masters |-> Left(key[m], 1)]
  /\ cop' = [cop EXCEPT !.left = Max(0, @ - 1)]
  /\ UNCHANGED <<learners, rec, ask, two, gain, know, news>>
---------------------------------------------------------------------------------
(* The record. *)

Choose(L) ==
  /\ Len(learners) < MaxVersion
  /\ learners' = Append(learners, L)
  /\ \E X \in {Y \in SUBSET Masters : Cardinality(Y) = Quorum} : rec' = [m \in Masters |-> IF m \in X THEN Len(learners) + 1 ELSE rec[m]]

\* code: fleet.outOfStep, member.Situation.demotes
Demote(m) ==
  /\ m \notin Last /\ Cardinality(Masters \ (Last \cup {m})) >= Quorum
  /\ Choose(Last \cup {m})
  /\ UNCHANGED <<key, held, ask, two, gain, know, cop, news>>

\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Learn(m) ==
  /\ rec[m] < Len(learners)
  /\ rec' = [rec EXCEPT ![m] = Len(learners)]
  /\ UNCHANGED <<learners, key, held, ask, two, gain, know, cop, news>>
---------------------------------------------------------------------------------
(* The second lock. *)

(* A LOCK sets the key, an EXTEND, a renewal or a HOLD finds it there. Where the clock is out of step that is no vote, and is done all the same. *)
\* code: guard.judge, Client.vote
Vote(p, m) ==
  LET found == key[m].of = "second"
      counts == Counts(p, m) \/ (found /\ MFoundCounts)
      votes == IF counts THEN ask.votes \cup {m} ELSE ask.votes
      granted == Cardinality(votes) >= Quorum
  IN
  /\ ask.by \in {Nobody, p} /\ ask.v \in {0, rec[m]} /\ m \notin ask.votes
  /\ m \notin learners[rec[m]]
  /\ key[m] = NoKey \/ (found /\ Extends)
  /\ counts \/ Extends
  /\ Reads(p, {m})
  /\ key' = [key EXCEPT ![m] = [of |-> "second", left |-> TTL + Tol]]
  /\ ask' = [by |-> p, v |-> rec[m], votes |-> votes]
  /\ two' = (granted /\ held > 0)
  /\ UNCHANGED <<learners, rec, held, gain, cop, news>>

\* code: Client.undoLocked
TakeBack ==
  /\ ask.by # Nobody
  /\ ask' = NoAsk
  /\ \/ key' = [m \in Masters |-> IF key[m].of = "second" THEN NoKey ELSE key[m]]
     \/ Extends /\ key' = key
  /\ UNCHANGED <<learners, rec, held, two, gain, know, cop, news>>
---------------------------------------------------------------------------------
(* Copies. *)

\* code: coordinator.Coordinator.recoverOne, copying.Copier.Start, lane.source
Begin(p) ==
  /\ cop.by = Nobody
  /\ \E m \in Last : \E S \in {X \in SUBSET (Masters \ Last) : Cardinality(X) = Quorum} :
       /\ MAnySource \/ \A x \in S : Counts(p, x)
       /\ Reads(p, S \cup {m})
       /\ cop' = [NoCopy EXCEPT !.by = p, !.m = m, !.v = Len(learners), !.from = S, !.todo = S, !.fresh = Read(know[p][m], m).fresh]
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, news>>

(* The key of a source. Two that differ are one that nobody owns. *)
\* code: copying.Copy.read, copying.Copy.readCommand, lua/copy_read.lua
ReadKey(x) ==
  LET h == key[x] IN
  /\ x \in cop.todo /\ rec[x] >= cop.v
  /\ cop' = [cop EXCEPT !.todo = @ \ {x}, !.left = Max(@, h.left), !.of = IF @ = Nobody THEN h.of ELSE IF h.of \in {@, Nobody} THEN @ ELSE "nobody"]
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, know, news>>

(* The code does not bring nearer the end of a key that the learner has already. Nothing here needs that. *)
\* code: copying.Place.judge, copying.Copy.settle, copying.Copy.giveCommand, lua/copy_give.lua
Write ==
  LET left == cop.left + IF MNoPadAnew THEN 0 ELSE Tol IN
  /\ cop.by # Nobody /\ cop.todo = {} /\ ~cop.done
  /\ rec[cop.m] >= cop.v /\ cop.m \in learners[rec[cop.m]]
  /\ key' = [key EXCEPT ![cop.m] = IF cop.of = Nobody \/ left = 0 THEN NoKey ELSE [of |-> cop.of, left |-> left]]
  /\ cop' = [cop EXCEPT !.done = TRUE, !.of = Nobody, !.left = 0]
  /\ UNCHANGED <<learners, rec, held, ask, two, gain, know, news>>

\* code: coordinator.Coordinator.recovered, copying.Copy.StillGood, coordinator.Coordinator.propose, lane.gave
Promote ==
  LET p == cop.by m == cop.m k == Read(know[p][m], m)
      good == IF MLateRing THEN [counts |-> TRUE, since |-> gain[m], fresh |-> None]
              ELSE IF k.counts \/ k.fresh # cop.fresh THEN k
              ELSE [counts |-> TRUE, since |-> k.fresh, fresh |-> None]
  IN
  /\ cop.done /\ m \in Last /\ cop.from \cap Last = {}
  /\ MAnySource \/ MNoLook \/ \A x \in cop.from : Counts(p, x)
  /\ Choose(Last \ {m})
  /\ know' = [know EXCEPT ![p] = [x \in Masters |-> IF x = m THEN good ELSE Read(know[p][x], x)]]
  /\ cop' = NoCopy
  /\ UNCHANGED <<key, held, ask, two, gain, news>>

\* code: coordinator.Coordinator.recoverOne, copying.Copy.Over
GiveUp ==
  /\ cop.by # Nobody
  /\ cop' = NoCopy
  /\ UNCHANGED <<learners, rec, key, held, ask, two, gain, know, news>>

Next ==
  \/ Tick \/ TakeBack \/ Write \/ Promote \/ GiveUp
  \/ \E m \in Steppable, d \in 1..MaxGain : Forward(m, d)
  \/ \E m \in Goes : Demote(m)
  \/ \E m \in Masters : Learn(m) \/ ReadKey(m) \/ \E p \in Proxies : Vote(p, m) \/ Look(p, m) \/ Believes(p, m) \/ \E q \in Proxies \ {p} : Told(p, q, m)
  \/ \E p \in Proxies : Begin(p) \/ Restart(p)
Spec == Init /\ [][Next]_vars

MutualExclusion == ~two
Perms == Permutations(Proxies)
==================================================================================
