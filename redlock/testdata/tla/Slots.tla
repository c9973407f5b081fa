---------------------------------- MODULE Slots ----------------------------------
(***************************************************************************)
(* LOCK ... SLOTS k: each slot is a lock of its own. May a token that its  *)
(* caller repeats, through several redlockds at the same time, hold two    *)
(* slots, and may two tokens hold one?                                     *)
(*                                                                         *)
(* The rule: a round asks all masters for one slot. A master sets it if it *)
(* is free, or holds the token, and no other slot holds the token.         *)
(* A lease is for the slot that a quorum has set for this round.           *)
(*                                                                         *)
(* Time is in ticks. Keys live for TTL ticks from when they are set, leases*)
(* for TTL ticks from the beginning of the round. A failed attempt leaves  *)
(* what it has set (Lock has what takes it back). After an UNLOCK the  *)
(* caller does not use the token any more.                                 *)
(*                                                                         *)
(* What the rule takes for granted is a constant, too: Fewer are redlockds *)
(* whose callers name a smaller k. Each CONSTANT named M... breaks a rule. *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Masters, Proxies, Nobody,
  Tokens,
  Slots,
  First,      \* the slots that a smaller k has
  Fewer,      \* the proxies whose callers name the smaller k
  TTL,
  MTwoSlots,  \* a master does not look at the other slots
  MMask,      \* a master that says that the slot is free counts, and nothing is set
  MOtherSlot  \* the votes for one slot count for the next one that is asked for

Quorum == Cardinality(Masters) \div 2 + 1
Max(x, y) == IF x > y THEN x ELSE y
Seen(p) == IF p \in Fewer THEN First ELSE Slots

VARIABLES
  key,   \* what a master holds in each slot: whose, and for how long
  att,   \* each proxy's attempt or lease
  spent  \* the tokens that were unlocked
vars == <<key, att, spent>>

NoKey == [of |-> Nobody, left |-> 0]
Idle == [st |-> "idle", token |-> Nobody, slot |-> Nobody, asked |-> {}, votes |-> {}, left |-> 0]

Init ==
  /\ key = [m \in Masters |-> [s \in Slots |-> NoKey]]
  /\ att = [p \in Proxies |-> Idle]
  /\ spent = {}

\* code: Client.beginLockLocked, slotSearch.aim, slotSearch.heldBy
Begin(p) ==
  /\ att[p].st = "idle"
  /\ \E t \in Tokens \ spent, s \in Seen(p) :
       att' = [att EXCEPT ![p] = [st |-> "asks", token |-> t, slot |-> s, asked |-> {}, votes |-> {}, left |-> TTL]]
  /\ UNCHANGED <<key, spent>>

(* A master executes the script. *)
\* code: writeSlot, readSlot, lua/slot.lua; trace: SlotsTrace
Vote(p, m) ==
  LET a == att[p]
      elsewhere == {s \in Seen(p) \ {a.slot} : key[m][s].of = a.token}
      grants == key[m][a.slot].of \in {Nobody, a.token} /\ (elsewhere = {} \/ MTwoSlots)
  IN /\ a.st = "asks" /\ m \notin a.asked
     /\ att' = [att EXCEPT ![p].asked = @ \cup {m}, ![p].votes = IF grants THEN @ \cup {m} ELSE @]
     /\ key' = IF grants /\ ~MMask THEN [key EXCEPT ![m][a.slot] = [of |-> a.token, left |-> Max(@.left, TTL)]] ELSE key
     /\ UNCHANGED spent

\* code: Client.acquisitionDecided, slotSearch.granted; trace: Trace, SlotsTrace
Grant(p) ==
  /\ att[p].st = "asks" /\ Cardinality(att[p].votes) >= Quorum
  /\ att' = [att EXCEPT ![p].st = "holds"]
  /\ UNCHANGED <<key, spent>>

\* code: Client.failedLocked, Client.undoLocked
Fail(p) ==
  /\ att[p].st = "asks"
  /\ att' = [att EXCEPT ![p] = Idle]
  /\ UNCHANGED <<key, spent>>

(* The next round of an attempt asks for another slot. *)
\* code: slotSearch.denied, slotSearch.aim; trace: SlotsTrace
Another(p) ==
  /\ att[p].st = "asks"
  /\ \E s \in Seen(p) \ {att[p].slot} :
       att' = [att EXCEPT ![p].slot = s, ![p].asked = {}, ![p].votes = IF MOtherSlot THEN @ ELSE {}, ![p].left = TTL]
  /\ UNCHANGED <<key, spent>>

(* UNLOCK reaches any of the masters. Nobody who has the token counts on it any more. *)
\* code: Client.StartUnlock, leases.slotReleased, lua/release.lua; trace: Trace, SlotsTrace
Unlock(p) ==
  LET a == att[p]
  IN /\ a.st = "holds"
     /\ spent' = spent \cup {a.token}
     /\ att' = [q \in Proxies |-> IF att[q].token = a.token THEN Idle ELSE att[q]]
     /\ \E U \in SUBSET Masters :
          key' = [m \in Masters |-> IF m \in U /\ key[m][a.slot].of = a.token THEN [key[m] EXCEPT ![a.slot] = NoKey] ELSE key[m]]

\* code: none: time passes
Tick ==
  /\ key' = [m \in Masters |-> [s \in Slots |-> IF key[m][s].left <= 1 THEN NoKey ELSE [key[m][s] EXCEPT !.left = @ - 1]]]
  /\ att' = [p \in Proxies |-> IF att[p].left <= 1 THEN Idle ELSE [att[p] EXCEPT !.left = @ - 1]]
  /\ UNCHANGED spent

Next == Tick \/ \E p \in Proxies : Begin(p) \/ Grant(p) \/ Fail(p) \/ Another(p) \/ Unlock(p) \/ \E m \in Masters : Vote(p, m)
Spec == Init /\ [][Next]_vars

Holds(p) == att[p].st = "holds"
OneHolder == \A p, q \in Proxies : Holds(p) /\ Holds(q) /\ att[p].slot = att[q].slot => att[p].token = att[q].token
OneSlot == \A p, q \in Proxies : Holds(p) /\ Holds(q) /\ att[p].token = att[q].token => att[p].slot = att[q].slot
Perms == Permutations(Masters) \cup Permutations(Proxies \ Fewer) \cup Permutations(Tokens) \cup Permutations(First) \cup Permutations(Slots \ First)
==================================================================================
