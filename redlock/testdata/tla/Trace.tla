---------------------------------- MODULE Trace ----------------------------------
(***************************************************************************)
(* Is what the simulation has recorded a behaviour of Lock? Each event of  *)
(* a trace must be an action of Lock, with the times that were observed.   *)
(*                                                                         *)
(* Here there are records of the membership, and a master has its vote     *)
(* under one of them, or none. A vote counts for its record only, and only *)
(* if the batch that carried it ended with the master showing what it      *)
(* showed at the vote. RecordTrace has how records come about.             *)
(*                                                                         *)
(* A proxy decides a round by the votes of a quorum of the masters of one  *)
(* record. The trace says when the round began, and whose votes they were: *)
(* each must have been executed since then, for this proxy, and must       *)
(* count. A caller is told of a decision, and of no longer lease than it   *)
(* allows: the TTL from when the round began, less the allowance for       *)
(* drift.                                                                  *)
(*                                                                         *)
(* A fence is above the mark that the master kept, and becomes its mark.   *)
(* Marks go down only when the master forgets, and when it votes again no  *)
(* quorum of the voters has lower marks than the highest fence that was    *)
(* granted. Fences grow from grant to grant.                               *)
(*                                                                         *)
(* A master that has forgotten votes again after the wait, or when copies  *)
(* have given it what the invariant of recovery by copying asks for        *)
(* (Knows): of each lease fewer than a quorum of the voters hold no key.   *)
(*                                                                         *)
(* Moments are in microseconds of true time, masters' clocks in            *)
(* milliseconds. Fences are numbered by their order.                       *)
(***************************************************************************)
EXTENDS Lock, Replay

VARIABLES
  heirs,  \* pairs of tokens: a takeover has begun to put the second in the place of the first
  copied, \* the masters that vote before the wait is over since they last forgot
  under,  \* by master: the record under which it votes. 0: it has no vote
  cast,   \* the votes that count: of which proxy, for which token, of which master, under which record, when, for how long and with which fence
  decided, \* the rounds that a quorum granted: of which proxy, for which token, by whose votes, with which fence, and until when a lease may count on them
  mark,   \* by master: the highest fence that it knows of. 0: none
  top     \* the highest fence that was granted, and to which token
tvars == <<vars, replay, heirs, copied, under, cast, decided, mark, top>>

(* The allowance of clock/validity.go, with its defaults: 1 % of the TTL, or half of that and 10 ms; and 2 ms. In microseconds, of milliseconds. *)
Drift(ttl) == Max(10 * ttl, 5 * ttl + 10000) + 2000

(* Masters that are new have no vote. *)
TInit ==
  /\ Start(FALSE)
  /\ RInit
  /\ heirs = {}
  /\ copied = {}
  /\ under = [m \in Masters |-> 0]
  /\ cast = {} /\ decided = {}
  /\ mark = [m \in Masters |-> 0]
  /\ top = [fence |-> 0, of |-> Nobody]

(* The votes of these masters that a round of the proxy, which began at start, may count. *)
Counted(p, t, start, r, fence) == {c \in cast : c.p = p /\ c.t = t /\ c.at >= start /\ c.r = r /\ c.fence = fence}
(* The TTLs for which each of them has voted. *)
Agreed(some, by) == {ttl \in {c.ttl : c \in some} : by \subseteq {c.m : c \in {x \in some : x.ttl = ttl}}}

NoVote(m) == votes' = [votes EXCEPT ![m] = FALSE] /\ UNCHANGED <<key, lost, worth, set, lease, over, forgets>>

(* A takeover: the master puts u in the place of t, and the key lives no shorter. The caller of t believes in it until it is told of u. A key lives through the *)
(* millisecond in which it ends. *)
TakeOver(m, p, t, u, c, ttl, e, w) ==
  /\ key[m].of = t /\ key[m].end >= c /\ e = Max(key[m].end, c + ttl)
  /\ key' = [key EXCEPT ![m] = [of |-> u, end |-> e]]
  /\ worth' = IF votes[m] /\ u \notin over THEN [worth EXCEPT ![p][u][m] = Max(@, w)] ELSE worth
  /\ UNCHANGED <<votes, lost, set, lease, over, forgets>>
(* It has failed, or is tried again, and the master puts t back in the place of u. No lease may need this vote for u. *)
PutBack(m, t, u, n) ==
  /\ key[m].of = u
  /\ lease[u] <= n \/ \E d \in decided : d.t = u /\ d.until >= lease[u] /\ m \notin d.by
  /\ key' = [key EXCEPT ![m].of = t]
  /\ worth' = [p \in Proxies |-> [worth[p] EXCEPT ![u][m] = 0]]
  /\ UNCHANGED <<votes, lost, set, lease, over, forgets>>
(* What a takeover has set is not released while the caller believes in what was there before. *)
Inherits(t, n) == \E h \in heirs : h[2] = t /\ lease[h[1]] > n

(* What a takeover has left of the token before it: a quorum of others has the new one, and the caller has only not been told yet. *)
LeftBehind(m, t) ==
  /\ key[m].of = t
  /\ \E h \in heirs, d \in decided : h[1] = t /\ d.t = h[2] /\ d.until >= lease[t] /\ m \notin d.by
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ worth' = [p \in Proxies |-> [worth[p] EXCEPT ![t][m] = 0]]
  /\ UNCHANGED <<votes, lost, set, lease, over, forgets>>

(* A copy writes only where there is no vote. *)
Copied(m, t, e) ==
  /\ ~votes[m]
  /\ key' = [key EXCEPT ![m] = [of |-> t, end |-> e]]
  /\ UNCHANGED <<votes, lost, worth, set, lease, over, forgets>>
Cleared(m, t) ==
  /\ ~votes[m] /\ key[m].of = t
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ UNCHANGED <<votes, lost, worth, set, lease, over, forgets>>

(* The caller is told that the lock is lost, and may lock with its token again: nothing is released. *)
Lost(t) ==
  /\ t \in Callers
  /\ lease' = [lease EXCEPT ![t] = 0]
  /\ UNCHANGED <<key, votes, lost, worth, set, over, forgets>>

(* What may stand in the place of a token's key: that of a takeover, or a value that nobody owns. *)
Kin(t) == {t} \cup {h[2] : h \in {x \in heirs : x[1] = t}} \cup {h[1] : h \in {x \in heirs : x[2] = t}}
(* With m among the voters of record r fewer than a quorum of them would not deny a lease. *)
Knows(m, n, r) ==
  LET voters == {m} \cup {x \in Trace.records[r].masters : votes[x]} IN
  \A t \in Tokens : lease[t] > n => Cardinality({x \in voters : key[x].of \notin Kin(t)}) < Trace.records[r].quorum
Waited(e, n) == lost[e[3]] = 0 \/ n >= lost[e[3]] + 1000 * Trace.records[e[4]].maxTTL
Remembers(m, r) == Cardinality({x \in {m} \cup {x \in Trace.records[r].masters : votes[x]} : mark[x] < top.fence}) < Trace.records[r].quorum
Admitted(e, n) ==
  /\ Waited(e, n) \/ e[3] \in copied \/ Knows(e[3], n, e[4])
  /\ Remembers(e[3], e[4])
  /\ Admit(e[3], n, 0)

Until(e, n) == IF e[9] = 1 THEN n + 1000 * e[7] - Drift(e[7]) ELSE 0

Fenced(m, fence) == fence = 0 \/ fence > mark[m]
(* The decision that an event tells of. *)
Decision(e) ==
  LET fit == Counted(e[3], e[4], e[5], e[6], e[7])
      ttls == Agreed(fit, e[8])
      ttl == CHOOSE x \in ttls : \A y \in ttls : y <= x
  IN IF ttls = {} \/ Cardinality(e[8]) < Trace.records[e[6]].quorum THEN {}
     ELSE {[p |-> e[3], t |-> e[4], by |-> e[8], fence |-> e[7], until |-> e[5] + 1000 * ttl - Drift(ttl)]}
Told(d, e, n) ==
  /\ d.p = e[3] /\ d.t = e[4] /\ d.fence = e[6] /\ d.until >= e[5]
  /\ Grant(e[3], e[4], n, e[5], {d.by})
  /\ e[6] = 0 \/ e[6] > top.fence \/ e[4] = top.of

Same == UNCHANGED <<key, votes, lost, worth, set, lease, over, forgets>>
Happens(e, n) ==
  CASE e[1] = "V" -> Fenced(e[3], e[10]) /\ Vote(e[3], e[4], e[5], e[6], e[7], e[8], Until(e, n), Trace.longest, Move)
    [] e[1] = "T" -> TakeOver(e[3], e[4], e[11], e[5], e[6], e[7], e[8], Until(e, n))
    [] e[1] = "B" -> PutBack(e[3], e[5], e[6], n)
    [] e[1] = "R" -> ~Inherits(e[4], n) /\ (IF e[4] \in Own /\ e[4] \notin over /\ lease[e[4]] <= n THEN ReleaseFailed(e[3], e[4]) ELSE Release(e[3], e[4]) \/ LeftBehind(e[3], e[4]))
    \* A proxy that finds a token of its own grant released elsewhere undoes what is left: a release that looks at more than it has to.
    [] e[1] = "U" -> Undo(e[3], e[4], e[5]) \/ Release(e[3], e[5])
    [] e[1] = "F" -> Forget(e[3], n)
    [] e[1] = "A" -> (IF e[4] = 0 THEN NoVote(e[3]) ELSE Admitted(e, n))
    [] e[1] = "C" -> Copied(e[3], e[4], e[5])
    [] e[1] = "D" -> Cleared(e[3], e[4])
    [] e[1] = "M" -> e[4] >= mark[e[3]] /\ Same
    [] e[1] = "K" -> (e[4] \in over \/ Decision(e) # {}) /\ Same
    [] e[1] = "G" -> \E d \in decided : Told(d, e, n)
    [] e[1] = "O" -> GiveUp(e[3])
    [] e[1] = "L" -> Lost(e[3])
    [] e[1] = "N" -> Gone(e[3], n)
    [] OTHER -> FALSE

TNext == \E c \in Ways : LET e == EventOf(c) IN
  /\ e[2] >= now
  /\ Happens(e, e[2])
  /\ now' = e[2]
  /\ heirs' = CASE e[1] = "T" -> heirs \cup {<<e[11], e[5]>>}
                [] e[1] = "C" /\ e[6] = 1 -> heirs \cup {<<t, e[4]>> : t \in Tokens}
                [] e[1] = "N" -> {h \in heirs : h[1] # e[3] /\ h[2] # e[3]}
                [] OTHER -> heirs
  /\ copied' = CASE e[1] = "F" -> copied \ {e[3]}
                 [] e[1] = "A" /\ e[4] # 0 -> copied \cup {e[3]}
                 [] OTHER -> copied
  /\ under' = CASE e[1] = "A" -> [under EXCEPT ![e[3]] = e[4]]
                [] e[1] = "F" -> [under EXCEPT ![e[3]] = 0]
                [] OTHER -> under
  /\ cast' = {x \in cast : worth'[x.p][x.t][x.m] # 0} \cup
       IF e[1] \in {"V", "T"} /\ votes[e[3]] /\ e[5] \notin over /\ e[9] = 1
       THEN {[p |-> e[4], t |-> e[5], m |-> e[3], r |-> under[e[3]], at |-> now', ttl |-> e[7], fence |-> e[10]]} ELSE {}
  /\ decided' = {d \in decided : d.t \notin over' /\ d.until > now' /\ ~(e[1] = "N" /\ d.t = e[3])} \cup
       IF e[1] = "K" /\ e[4] \notin over THEN Decision(e) ELSE {}
  /\ mark' = CASE e[1] = "V" /\ e[10] > 0 -> [mark EXCEPT ![e[3]] = e[10]]
               [] e[1] = "M" -> [mark EXCEPT ![e[3]] = e[4]]
               [] e[1] = "F" -> [mark EXCEPT ![e[3]] = 0]
               [] OTHER -> mark
  /\ top' = IF e[1] = "G" /\ e[6] > top.fence THEN [fence |-> e[6], of |-> e[4]]
            ELSE IF e[1] = "N" /\ e[3] = top.of THEN [top EXCEPT !.of = Nobody] ELSE top
  /\ Follow(c)
  /\ MutualExclusion'
  /\ Accepted(c)

TSpec == TInit /\ [][TNext]_tvars
=================================================================================
