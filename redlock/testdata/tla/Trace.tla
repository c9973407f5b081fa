---------------------------------- MODULE Trace ----------------------------------
(***************************************************************************)
(* Is what the simulation has recorded a behaviour of Lock? Each event of  *)
(* a trace must be an action of Lock, with the times that were observed.   *)
(* Of a trace that is one the last event is printed. A grant under a token *)
(* that its caller has chosen does not tell which votes it was for, so     *)
(* that there may be several ways through a trace; one is enough.          *)
(*                                                                         *)
(* Here there are records of the membership, and a master has its vote     *)
(* under one of them, or none. A vote counts for its record only, and only *)
(* if the batch that carried it ended with the master showing what it      *)
(* showed at the vote. RecordTrace has how records come about.             *)
(*                                                                         *)
(* A master that has forgotten votes again after the wait, or when copies  *)
(* have given it what the invariant of recovery by copying asks for        *)
(* (Knows): of each lease fewer than a quorum of the voters hold no key.   *)
(*                                                                         *)
(* Moments are in microseconds of true time, masters' clocks in            *)
(* milliseconds. What a vote is worth is what the engine may make of it:   *)
(* the TTL from when the master has executed the command, less the         *)
(* allowance for drift.                                                    *)
(***************************************************************************)
EXTENDS Lock, Sequences, Traces

CONSTANT Verbose \* TRUE: each event that is accepted is printed

VARIABLES
  tr,    \* which trace
  next,  \* the event to come
  heirs, \* pairs of tokens: a takeover has begun to put the second in the place of the first
  copied, \* the masters that vote before the wait is over since they last forgot
  under, \* by master: the record under which it votes. 0: it has no vote
  cast   \* the votes that count: of which proxy, for which token, of which master, under which record, and until when a lease may count on it
tvars == <<vars, tr, next, heirs, copied, under, cast>>

(* The allowance of clock/validity.go, with its defaults: 1 % of the TTL, or half of that and 10 ms; and 2 ms. In microseconds, of milliseconds. *)
Drift(ttl) == Max(10 * ttl, 5 * ttl + 10000) + 2000
Trace == Traces[tr]
Event == Trace.events[next]

(* Masters that are new have no vote. *)
TInit ==
  /\ Start(FALSE)
  /\ tr \in 1..Len(Traces)
  /\ next = 1
  /\ heirs = {}
  /\ copied = {}
  /\ under = [m \in Masters |-> 0]
  /\ cast = {}

(* The quorums of one record whose votes for a token allow a lease until u. *)
Backings(p, t, u) ==
  LET fit == {c \in cast : c.p = p /\ c.t = t /\ c.until >= u} IN
  UNION {{Q \in SUBSET {c.m : c \in {x \in fit : x.r = r}} : Cardinality(Q) = Trace.records[r].quorum} : r \in {c.r : c \in fit}}

NoVote(m) == votes' = [votes EXCEPT ![m] = FALSE] /\ UNCHANGED <<key, lost, worth, set, lease, over, forgets>>

(* A takeover: the master puts u in the place of t, and the key lives no shorter. The caller of t believes in it until it is told of u. *)
TakeOver(m, p, t, u, c, ttl, e, w) ==
  /\ Held(m, c).of = t /\ e = Max(key[m].end, c + ttl)
  /\ key' = [key EXCEPT ![m] = [of |-> u, end |-> e]]
  /\ worth' = IF votes[m] /\ u \notin over THEN [worth EXCEPT ![p][u][m] = Max(@, w)] ELSE worth
  /\ UNCHANGED <<votes, lost, set, lease, over, forgets>>
(* It has failed, or is tried again, and the master puts t back in the place of u. No lease may need this vote for u. *)
PutBack(m, t, u, n) ==
  /\ key[m].of = u
  /\ lease[u] <= n \/ \E p \in Proxies : \E Q \in Backings(p, u, lease[u]) : m \notin Q
  /\ key' = [key EXCEPT ![m].of = t]
  /\ worth' = [p \in Proxies |-> [worth[p] EXCEPT ![u][m] = 0]]
  /\ UNCHANGED <<votes, lost, set, lease, over, forgets>>
(* What a takeover has set is not released while the caller believes in what was there before. *)
Inherits(t, n) == \E h \in heirs : h[2] = t /\ lease[h[1]] > n

(* A copy writes only where there is no vote. *)
Copied(m, t, e) ==
  /\ ~votes[m]
  /\ key' = [key EXCEPT ![m] = [of |-> t, end |-> e]]
  /\ UNCHANGED <<votes, lost, worth, set, lease, over, forgets>>
Cleared(m, t) ==
  /\ ~votes[m] /\ key[m].of = t
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ UNCHANGED <<votes, lost, worth, set, lease, over, forgets>>
(* What may stand in the place of a token's key: that of a takeover, or a value that nobody owns. *)
Kin(t) == {t} \cup {h[2] : h \in {x \in heirs : x[1] = t}} \cup {h[1] : h \in {x \in heirs : x[2] = t}}
(* With m among the voters of record r fewer than a quorum of them would not deny a lease. *)
Knows(m, n, r) ==
  LET voters == {m} \cup {x \in Trace.records[r].masters : votes[x]} IN
  \A t \in Tokens : lease[t] > n => Cardinality({x \in voters : key[x].of \notin Kin(t)}) < Trace.records[r].quorum
Waited(e, n) == lost[e[3]] = 0 \/ n >= lost[e[3]] + 1000 * Trace.records[e[4]].maxTTL
Admitted(e, n) ==
  /\ Waited(e, n) \/ e[3] \in copied \/ Knows(e[3], n, e[4])
  /\ Admit(e[3], n, 0)

Until(e, n) == IF e[9] = 1 THEN n + 1000 * e[7] - Drift(e[7]) ELSE 0

Happens(e, n) ==
  CASE e[1] = "V" -> Vote(e[3], e[4], e[5], e[6], e[7], e[8], Until(e, n), Trace.longest, Move)
    [] e[1] = "T" -> TakeOver(e[3], e[4], e[10], e[5], e[6], e[7], e[8], Until(e, n))
    [] e[1] = "B" -> PutBack(e[3], e[5], e[6], n)
    [] e[1] = "R" -> ~Inherits(e[4], n) /\ (IF e[4] \in Own /\ e[4] \notin over /\ lease[e[4]] <= n THEN ReleaseFailed(e[3], e[4]) ELSE Release(e[3], e[4]))
    \* A proxy that finds a token of its own grant released elsewhere undoes what is left: a release that looks at more than it has to.
    [] e[1] = "U" -> Undo(e[3], e[4], e[5]) \/ Release(e[3], e[5])
    [] e[1] = "F" -> Forget(e[3], n)
    [] e[1] = "A" -> (IF e[4] = 0 THEN NoVote(e[3]) ELSE Admitted(e, n))
    [] e[1] = "C" -> Copied(e[3], e[4], e[5])
    [] e[1] = "D" -> Cleared(e[3], e[4])
    [] e[1] = "G" -> Grant(e[3], e[4], n, e[5], Backings(e[3], e[4], e[5]))
    [] e[1] = "O" -> GiveUp(e[3])
    [] e[1] = "N" -> Gone(e[3], n)
    [] OTHER -> FALSE

TNext ==
  /\ next <= Len(Trace.events)
  /\ Happens(Event, Event[2])
  /\ now' = Event[2]
  /\ next' = next + 1
  /\ tr' = tr
  /\ heirs' = CASE Event[1] = "T" -> heirs \cup {<<Event[10], Event[5]>>}
                [] Event[1] = "C" /\ Event[6] = 1 -> heirs \cup {<<t, Event[4]>> : t \in Tokens}
                [] Event[1] = "N" -> {h \in heirs : h[1] # Event[3] /\ h[2] # Event[3]}
                [] OTHER -> heirs
  /\ copied' = CASE Event[1] = "F" -> copied \ {Event[3]}
                 [] Event[1] = "A" /\ Event[4] # 0 -> copied \cup {Event[3]}
                 [] OTHER -> copied
  /\ under' = CASE Event[1] = "A" -> [under EXCEPT ![Event[3]] = Event[4]]
                [] Event[1] = "F" -> [under EXCEPT ![Event[3]] = 0]
                [] OTHER -> under
  /\ cast' = {c \in cast : worth'[c.p][c.t][c.m] # 0} \cup
       IF Event[1] \in {"V", "T"} /\ votes[Event[3]] /\ Event[5] \notin over /\ Until(Event, now') > 0
       THEN {[p |-> Event[4], t |-> Event[5], m |-> Event[3], r |-> under[Event[3]], until |-> Until(Event, now')]} ELSE {}
  /\ MutualExclusion'
  /\ (next >= Len(Trace.events) - 1 \/ Verbose) => PrintT(<<"accepted", tr, next>>)

TSpec == TInit /\ [][TNext]_tvars
=================================================================================
