---------------------------------- MODULE Wake -----------------------------------
(***************************************************************************)
(* A waiter that pauses for long: is it told when what it waits for is     *)
(* free on a quorum, whatever the masters and its connections do?          *)
(*                                                                         *)
(* The rules (wait_tracked.go): the waiter observes the key on all masters,*)
(* which promise in their replies to announce the next change.             *)
(* - It sleeps only if more than N - quorum masters are awaited: they have *)
(*   shown the key, have promised, and have announced nothing since the    *)
(*   observation was launched.                                             *)
(* - It asks as soon as no more than that are left.                        *)
(* - A connection for announcements that breaks, and a flush, count as     *)
(*   announcements.                                                        *)
(* - What its own client changes is not announced to it, and the master    *)
(*   forgets its promise by it, also if the key stays: a lock is extended. *)
(*   It counts as announced.                                               *)
(*                                                                         *)
(* A master that stops does nothing, which any master may do at any time;  *)
(* it is silent to an observation, or reads it and its reply is too late.  *)
(* The key comes and goes on each master alone, as attempts of others and  *)
(* releases reach it. A waiter that does not sleep asks again by itself.   *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule.                               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Masters,
  MMute,        \* awaits masters that have promised, also where the key is absent
  MCounts,      \* asks when a quorum has announced a change
  MNoPromise,   \* awaits masters that show the key and promise nothing
  MFromReply,   \* forgets what was announced before the last reply
  MBroken,      \* a connection that breaks does not count
  MFlush,       \* a flush does not count
  MOwn,         \* what its own client removes does not count
  MOwnKeeps     \* what its own client changes without removing it does not count

N == Cardinality(Masters)
Quorum == N \div 2 + 1

VARIABLES
  key,     \* masters that hold the key
  sub,     \* masters with a connection for announcements
  armed,   \* masters that will announce the next change
  word,    \* masters whose announcement is on its way
  reply,   \* what each master has answered to the last observation
  changed, \* masters that have announced a change since it was launched
  sleeps   \* whether the waiter sleeps
vars == <<key, sub, armed, word, reply, changed, sleeps>>

Init ==
  /\ key \in SUBSET Masters
  /\ sub = Masters
  /\ armed = {}
  /\ word = {}
  /\ reply = [m \in Masters |-> "none"]
  /\ changed = {}
  /\ sleeps = FALSE

Said(what) == {m \in Masters : reply[m] = what}
Awaited == Said("promised") \cup (IF MMute THEN Said("absent") ELSE {}) \cup (IF MNoPromise THEN Said("shown") ELSE {})
Bound(c) == IF MCounts THEN Cardinality(c) < Quorum ELSE Cardinality(Awaited \ c) > N - Quorum

(* The waiter takes note of changes on these masters. *)
Hear(ms) ==
  /\ changed' = changed \cup ms
  /\ sleeps' = (sleeps /\ (ms \subseteq Said("absent") \/ Bound(changed \cup ms)))

(* A change of the key on a master. *)
Change(m) ==
  /\ word' = IF m \in armed THEN word \cup {m} ELSE word
  /\ armed' = armed \ {m}
\* code: none: others lock
Set(m) == m \notin key /\ key' = key \cup {m} /\ Change(m) /\ UNCHANGED <<sub, reply, changed, sleeps>>
\* code: none: others release, or the key ends
Remove(m) == m \in key /\ key' = key \ {m} /\ Change(m) /\ UNCHANGED <<sub, reply, changed, sleeps>>

(* Its own client removes the key there. *)
\* code: tracked.change, waiting.changesLocked
OwnRemove(m) ==
  /\ m \in key
  /\ key' = key \ {m}
  /\ armed' = armed \ {m}
  /\ IF MOwn THEN UNCHANGED <<changed, sleeps>> ELSE Hear({m})
  /\ UNCHANGED <<sub, word, reply>>

(* It changes the key there, which stays. *)
\* code: tracked.change, waiting.changesLocked
OwnChange(m) ==
  /\ m \in key
  /\ armed' = armed \ {m}
  /\ IF MOwnKeeps THEN UNCHANGED <<changed, sleeps>> ELSE Hear({m})
  /\ UNCHANGED <<key, sub, word, reply>>

\* code: none: a master is flushed
Flush(m) ==
  /\ key' = key \ {m}
  /\ armed' = armed \ {m}
  /\ word' = IF m \in sub /\ ~MFlush THEN word \cup {m} ELSE word
  /\ UNCHANGED <<sub, reply, changed, sleeps>>

(* The connection for announcements breaks, with what was on its way. The master may have died, and come back without data. *)
\* code: lane.unsubscribed, waiting.allInvalidated
Break(m) ==
  /\ m \in sub
  /\ sub' = sub \ {m}
  /\ armed' = armed \ {m}
  /\ word' = IF MBroken THEN word \ {m} ELSE word \cup {m}
  /\ key' \in {key, key \ {m}}
  /\ UNCHANGED <<reply, changed, sleeps>>
\* code: lane.keepSubscribed, lane.subscribe
Subscribe(m) == m \notin sub /\ sub' = sub \cup {m} /\ UNCHANGED <<key, armed, word, reply, changed, sleeps>>

\* code: waiting.invalidated, waiting.invalidatedLocked, tracked.change, waiting.wakeHeadLocked
Announce(m) ==
  /\ m \in word
  /\ word' = word \ {m}
  /\ Hear({m})
  /\ UNCHANGED <<key, sub, armed, reply>>

(* The waiter launches an observation. *)
\* code: waiting.observeLocked, tracked.begin, Client.observationDecided
Launch ==
  /\ ~sleeps
  /\ \A m \in Masters : reply[m] # "wanted"
  /\ reply' = [m \in Masters |-> "wanted"]
  /\ changed' = {}
  /\ UNCHANGED <<key, sub, armed, word, sleeps>>

(* A master reads it, and may have timed out before its reply comes; or it does not read it. *)
\* code: lane.tracks, batch.arm, batch.readArmed
Answer(m) ==
  /\ reply[m] = "wanted"
  /\ \/ \E late \in BOOLEAN :
          /\ reply' = [reply EXCEPT ![m] = IF late THEN "silent" ELSE IF m \notin key THEN "absent" ELSE IF m \in sub THEN "promised" ELSE "shown"]
          /\ armed' = IF m \in sub THEN armed \cup {m} ELSE armed
     \/ reply' = [reply EXCEPT ![m] = "silent"] /\ UNCHANGED armed
  /\ UNCHANGED <<key, sub, word, changed, sleeps>>

(* All have answered or are silent: it sleeps if it may. *)
\* code: tracked.observe, tracked.bound, waiting.pauseAfter
Decide ==
  /\ ~sleeps
  /\ Said("none") = {} /\ Said("wanted") = {}
  /\ LET c == IF MFromReply THEN {} ELSE changed
     IN changed' = c /\ sleeps' = IF MCounts THEN Cardinality(armed) >= Quorum /\ Bound(c) ELSE Bound(c)
  /\ sleeps'
  /\ UNCHANGED <<key, sub, armed, word, reply>>

Next ==
  \/ Launch \/ Decide
  \/ \E m \in Masters : Set(m) \/ Remove(m) \/ OwnRemove(m) \/ OwnChange(m) \/ Flush(m) \/ Break(m) \/ Subscribe(m) \/ Announce(m) \/ Answer(m)

Spec == Init /\ [][Next]_vars
---------------------------------------------------------------------------------
(* Nobody sleeps beside a key that is free on a quorum, but for what is on its way: that will have it ask. *)
Woken ==
  sleeps /\ N - Cardinality(key) >= Quorum
    => /\ ~Bound(changed \cup word)
       /\ ~(word \subseteq Said("absent"))
Perms == Permutations(Masters)
==================================================================================
