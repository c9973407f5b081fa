------------------------------- MODULE SharedTrace ------------------------------
(***************************************************************************)
(* Is what the simulation has recorded of a lock with readers a behaviour  *)
(* of Shared? Each event of a master says what its key was behind the      *)
(* command: a writer's token, or readers, each with an end of its own,     *)
(* beside an intent. One of the actions here must have made that of what   *)
(* was there before, and must leave all others as they were:               *)
(* - readers join where no writer is, and no intent keeps them out;        *)
(* - a writer takes the key where no reader is, and no other writer;       *)
(* - nothing brings an end nearer, and the key ends with the last reader;  *)
(* - a release takes tokens away that nobody holds; what takes a failed    *)
(*   attempt back, only what that has set, and nobody has counted on since;*)
(* - a takeover puts one token in the place of another, and back;          *)
(* - a writer that waits sets the intent where readers are.                *)
(* A decision counts masters that have voted for the token since the round *)
(* began, in the mode of the lease. A caller is told of a decision, and of *)
(* no longer lease than the keys allow. No writer holds the lock beside    *)
(* another token.                                                          *)
(*                                                                         *)
(* Trace has under which record votes count, and when a master that has    *)
(* forgotten votes again. What a copy gives is taken as it is here.        *)
(*                                                                         *)
(* Moments are in microseconds of true time, those of keys in milliseconds *)
(* of masters' clocks.                                                     *)
(***************************************************************************)
EXTENDS Replay

CONSTANT Masters

VARIABLES
  now,
  key,     \* what each master holds: the writer w, the readers r with their ends, the end i of the intent, and the end e of the key
  cast,    \* the votes: of which master, for which proxy and token, as a reader (1) or not, when, and for how long the key lives
  took,    \* what an attempt has set: on which master, by which proxy, which token, until when
  decided, \* the rounds that a quorum has granted, and until when a lease may count on them
  lease,   \* until when callers believe in their tokens, in which mode
  over,    \* tokens that are given up
  heirs    \* tokens that a takeover has put in the place of others, and these
vars == <<replay, now, key, cast, took, decided, lease, over, heirs>>

Max(x, y) == IF x > y THEN x ELSE y
Drift(ttl) == Max(10 * ttl, 5 * ttl + 10000) + 2000
NoKey == [w |-> 0, r |-> {}, i |-> 0, e |-> 0]

TInit ==
  /\ RInit
  /\ now = 0
  /\ key = [m \in Masters |-> NoKey]
  /\ cast = {} /\ took = {} /\ decided = {} /\ lease = {} /\ over = {} /\ heirs = {}

(* What was there for certain: a script may still find what ends in its millisecond. *)
Live(k, c) == [w |-> IF k.e > c THEN k.w ELSE 0, r |-> {x \in k.r : x[2] > c}, i |-> IF k.i > c THEN k.i ELSE 0, e |-> IF k.e > c THEN k.e ELSE 0]
Tokens(k) == {x[1] : x \in k.r} \cup ({k.w} \ {0})
(* When a token ends; 0: it is not there. *)
End(k, t) == IF k.w = t THEN k.e ELSE IF \E x \in k.r : x[1] = t THEN (CHOOSE x \in k.r : x[1] = t)[2] ELSE 0
IsReader(k, t) == \E x \in k.r : x[1] = t

(* Of the readers but those in T nothing has changed, and the key lives as long as each. *)
Others(b, a, T) ==
  /\ {x \in b.r : x[1] \notin T} = {x \in a.r : x[1] \notin T}
  /\ \A x \in a.r : a.e >= x[2]
  /\ a.i <= a.e
Lives(b, a, t, c, ttl) == End(a, t) >= Max(End(b, t), c + ttl)
Leased(t, n) == \E l \in lease : l.t = t /\ l.until > n

Join(b, a, T, c, free) ==
  /\ b.w = 0 /\ a.w = 0 /\ a.i = b.i
  /\ \A t \in T : b.i = 0 \/ IsReader(b, t) \/ free = 1
  /\ Others(b, a, T)
  /\ \A t \in T : IsReader(a, t) /\ End(a, t) >= End(b, t) /\ End(a, t) > c

Take(b, a, t, from, c, ttl) ==
  /\ b.w \in {0, t, from} /\ b.r = {}
  /\ a.w = t /\ a.r = {}
  /\ a.e >= c + ttl /\ (b.w = t => a.e >= b.e)

(* k is what was there, with what ends now. *)
Extend(k, b, a, t, c, ttl) ==
  /\ End(k, t) >= c
  /\ Lives(b, a, t, c, ttl)
  /\ IF k.w = t THEN a.w = t /\ a.r = {} ELSE a.w = 0 /\ a.i = b.i /\ IsReader(a, t) /\ Others(b, a, {t})

Remove(b, a, T) ==
  /\ IF b.w # 0 THEN a = b \/ (b.w \in T /\ Tokens(a) = {})
     ELSE a.w = 0 /\ a.i = b.i /\ Others(b, a, T) /\ a.r \subseteq b.r
Removed(b, a) == Tokens(b) \ Tokens(a)
Release(b, a, T, n) ==
  /\ Remove(b, a, T)
  /\ \A t \in Removed(b, a) : t \in over \/ t \in heirs \/ ~Leased(t, n)
Undo(m, p, b, a, T, n) ==
  /\ Remove(b, a, T)
  /\ \A t \in Removed(b, a) :
       \/ t \in over
       \/ \E x \in took : x.m = m /\ x.p = p /\ x.t = t /\ End(b, t) <= x.e + Trace.slack /\ x.e <= End(b, t) + Trace.slack

Exchange(k, b, a, t, u, c, ttl) ==
  /\ End(k, t) >= c
  /\ End(a, u) >= Max(End(b, t), c + ttl) /\ t \notin Tokens(a)
  /\ IF k.w = t THEN a.w = u ELSE a.w = 0 /\ a.i = b.i /\ IsReader(a, u) /\ Others(b, a, {t, u})
PutBack(b, a, t, u) ==
  \/ a = b
  \/ /\ End(b, u) > 0 /\ u \notin Tokens(a)
     /\ End(a, t) >= End(b, u)
     /\ IF b.w = u THEN a.w = t ELSE a.w = 0 /\ a.i = b.i /\ IsReader(a, t) /\ Others(b, a, {t, u})

Announce(k, b, a, c) == a = b \/ ((\E x \in k.r : x[2] >= c) /\ a.w = 0 /\ a.r = b.r /\ a.i >= b.i /\ Others(b, a, {}))
Withdraw(b, a) == a = b \/ (a.w = 0 /\ a.r = b.r /\ a.i = 0 /\ Others(b, a, {}))

Executed(e, n) ==
  LET m == e[3] p == e[4] T == e[5] from == e[6] c == e[7] ttl == e[8] a == e[11]
      k == key[m]
      b == Live(k, c)
      t == CHOOSE x \in T : TRUE
      reader(x) == IF IsReader(a, x) THEN 1 ELSE 0
      new == {x \in T : End(b, x) = 0}
  IN
  /\ CASE e[1] = "J" -> Join(b, a, T, c, e[10])
       [] e[1] = "W" -> Take(b, a, t, from, c, ttl)
       [] e[1] = "E" -> Extend(k, b, a, t, c, ttl)
       [] e[1] = "R" -> Release(b, a, T, n)
       [] e[1] = "U" -> Undo(m, p, b, a, T, n)
       [] e[1] = "T" -> Exchange(k, b, a, from, t, c, ttl)
       [] e[1] = "B" -> PutBack(b, a, t, from)
       [] e[1] = "A" -> Announce(k, b, a, c)
       [] e[1] = "I" -> Withdraw(b, a)
       [] e[1] = "C" -> TRUE
       [] OTHER -> FALSE
  /\ key' = [key EXCEPT ![m] = a]
  /\ cast' = {x \in cast : x.at > n - 5000000} \cup
       IF e[1] \in {"J", "W", "E", "T"} /\ e[9] = 1
       THEN {[m |-> m, p |-> p, t |-> x, reader |-> reader(x), at |-> n, left |-> End(a, x) - c] : x \in T} ELSE {}
  /\ took' = {x \in took : x.e > c - 2000 /\ ~(x.m = m /\ x.p = p /\ x.t \in new)} \cup
       IF e[1] \in {"J", "W"} THEN {[m |-> m, p |-> p, t |-> x, e |-> End(a, x)] : x \in new} ELSE {}
  /\ heirs' = IF e[1] = "T" THEN heirs \cup {from, t} ELSE heirs
  /\ UNCHANGED <<decided, lease, over>>

Forget(m) ==
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ UNCHANGED <<cast, took, decided, lease, over, heirs>>

Decide(p, t, reader, start, by, quorum, n) ==
  LET of(m) == {x \in cast : x.m = m /\ x.p = p /\ x.t = t /\ x.reader = reader /\ x.at >= start}
      longest(m) == CHOOSE x \in {y.left : y \in of(m)} : \A y \in of(m) : y.left <= x
  IN
  /\ \/ t \in over
     \/ Cardinality(by) >= quorum /\ \A m \in by : of(m) # {}
  /\ decided' = {d \in decided : d.until > n} \cup
       IF t \in over THEN {}
       ELSE LET left == CHOOSE x \in {longest(m) : m \in by} : \A m \in by : x <= longest(m)
            IN {[p |-> p, t |-> t, reader |-> reader, until |-> start + 1000 * left - Drift(left)]}
  /\ UNCHANGED <<key, cast, took, lease, over, heirs>>

Grant(p, t, reader, until, n) ==
  /\ t \notin over
  /\ \E d \in decided : d.p = p /\ d.t = t /\ d.reader = reader /\ d.until >= until
  /\ \A l \in lease : l.until > n => IF l.t = t THEN l.reader = reader ELSE l.reader = 1 /\ reader = 1
  /\ lease' = {l \in lease : l.until > n} \cup {[t |-> t, reader |-> reader, until |-> until]}
  /\ UNCHANGED <<key, cast, took, decided, over, heirs>>

GiveUp(t, n) ==
  /\ lease' = {l \in lease : l.until > n /\ l.t # t}
  /\ decided' = {d \in decided : d.t # t}
  /\ UNCHANGED <<key, cast, took, heirs>>

Happens(e, n) ==
  CASE e[1] = "F" -> Forget(e[3])
    [] e[1] = "K" -> Decide(e[3], e[4], e[5], e[6], e[7], e[8], n)
    [] e[1] = "G" -> Grant(e[3], e[4], e[5], e[6], n)
    [] e[1] = "O" -> GiveUp(e[3], n) /\ over' = over \cup {e[3]}
    [] e[1] = "L" -> GiveUp(e[3], n) /\ UNCHANGED over
    [] OTHER -> Executed(e, n)

TNext == \E c \in Ways : LET e == EventOf(c) IN
  /\ e[2] >= now
  /\ now' = e[2]
  /\ Happens(e, e[2])
  /\ Follow(c)
  /\ Accepted(c)

TSpec == TInit /\ [][TNext]_vars
=================================================================================
