------------------------------- MODULE SlotsTrace -------------------------------
(***************************************************************************)
(* Is what the simulation has recorded of a semaphore a behaviour of       *)
(* Slots? Trace takes each slot for a lock of its own; here are all slots  *)
(* of one, and what a slot has to do with the others:                      *)
(* - a master sets a slot for a LOCK that has looked at so many, only if   *)
(*   it is free or holds the token, and none of the others holds it;       *)
(* - a round is decided for the slot that it asks for, by masters that have*)
(*   set that one for it since it began;                                   *)
(* - a caller is told of a slot that was decided, and then its token holds *)
(*   no other slot, and no other token that one;                           *)
(* - no caller is told of a round that began before it gave the slot up: a *)
(*   LOCK whose reply was lost may be decided behind the UNLOCK.           *)
(* A copy, and what gives a key back to a master that has lost it, look at *)
(* one slot alone: a master may hold two for a token then, and denies both.*)
(*                                                                         *)
(* Moments are in microseconds of true time, masters' clocks in            *)
(* milliseconds.                                                           *)
(***************************************************************************)
EXTENDS Replay

CONSTANT Masters

VARIABLES
  now,
  key,     \* what a master holds in each slot: whose, and when it ends by the master's clock
  cast,    \* the slot that each master has set last for a proxy and a token
  decided, \* the rounds that a quorum has granted: of which proxy, for which token and slot
  lease,   \* until when a token's caller believes in a slot
  ended    \* when a token's caller has given a slot up last
vars == <<replay, now, key, cast, decided, lease, ended>>

Slots == 1..Trace.slots
NoKey == [of |-> 0, end |-> 0]
Of(m, s, c) == IF key[m][s].end > c THEN key[m][s].of ELSE 0

TInit ==
  /\ RInit
  /\ now = 0
  /\ key = [m \in Masters |-> [s \in Slots |-> NoKey]]
  /\ cast = {} /\ decided = {} /\ lease = {} /\ ended = {}

Holds(s, t, n) == \E l \in lease : l.s = s /\ l.t = t /\ l.until > n
Set(m, s, t, e) == key' = [key EXCEPT ![m][s] = [of |-> t, end |-> e]]

(* Slots.Vote. *)
Vote(m, p, s, t, c, e, among, n) ==
  /\ Of(m, s, c) \in {0, t}
  /\ \A x \in 1..among \ {s} : Of(m, x, c) # t
  /\ Set(m, s, t, e)
  /\ cast' = {x \in cast : ~(x.m = m /\ x.p = p /\ x.t = t)} \cup {[m |-> m, p |-> p, t |-> t, s |-> s, at |-> n]}
  /\ UNCHANGED <<decided, lease, ended>>

Gone(m, s, t) ==
  /\ key[m][s].of = t
  /\ key' = [key EXCEPT ![m][s] = NoKey]
  /\ UNCHANGED <<cast, decided, lease, ended>>

(* What Slots.Grant counts. *)
Decide(p, s, t, start, by) ==
  /\ \A m \in by : \E x \in cast : x.m = m /\ x.p = p /\ x.t = t /\ x.s = s /\ x.at >= start
  /\ decided' = IF \E x \in ended : x.s = s /\ x.t = t /\ x.at >= start THEN decided ELSE decided \cup {[p |-> p, s |-> s, t |-> t]}
  /\ UNCHANGED <<key, cast, lease, ended>>

Grant(p, s, t, until, n) ==
  /\ [p |-> p, s |-> s, t |-> t] \in decided
  /\ \A x \in Slots \ {s} : ~Holds(x, t, n)
  /\ \A l \in lease : l.s = s /\ l.t # t => l.until <= n
  /\ lease' = {l \in lease : l.until > n /\ ~(l.s = s /\ l.t = t)} \cup {[s |-> s, t |-> t, until |-> until]}
  /\ UNCHANGED <<key, cast, decided, ended>>

(* Slots.Unlock: from then on nobody counts on the token in this slot. *)
GiveUp(s, t, n) ==
  /\ lease' = {l \in lease : ~(l.s = s /\ l.t = t)}
  /\ decided' = {d \in decided : ~(d.s = s /\ d.t = t)}
  /\ ended' = {x \in ended : ~(x.s = s /\ x.t = t)} \cup {[s |-> s, t |-> t, at |-> n]}
  /\ UNCHANGED <<key, cast>>

Happens(e, n) ==
  CASE e[1] = "V" -> Vote(e[3], e[4], e[5], e[6], e[7], e[8], e[9], n)
    [] e[1] = "R" -> Gone(e[3], e[4], e[5])
    [] e[1] = "C" -> Set(e[3], e[4], e[5], e[6]) /\ UNCHANGED <<cast, decided, lease, ended>>
    [] e[1] = "F" -> key' = [key EXCEPT ![e[3]] = [s \in Slots |-> NoKey]] /\ UNCHANGED <<cast, decided, lease, ended>>
    [] e[1] = "K" -> Decide(e[3], e[4], e[5], e[6], e[7])
    [] e[1] = "G" -> Grant(e[3], e[4], e[5], e[6], n)
    [] e[1] = "O" -> GiveUp(e[3], e[4], n)
    [] OTHER -> FALSE

TNext == \E c \in Ways : LET e == EventOf(c) IN
  /\ e[2] >= now
  /\ now' = e[2]
  /\ Happens(e, e[2])
  /\ Follow(c)
  /\ Accepted(c)

TSpec == TInit /\ [][TNext]_vars
=================================================================================
