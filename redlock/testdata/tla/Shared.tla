--------------------------------- MODULE Shared ----------------------------------
(***************************************************************************)
(* LOCK ... SHARED: any number of readers, or one writer. May a writer and *)
(* another token hold the lock at the same time, also if callers repeat    *)
(* their tokens through several redlockds, in the same mode or in the other*)
(* one? Does a waiting writer keep new readers out?                        *)
(*                                                                         *)
(* The rules: a master's key is a writer's token, or a set of readers'     *)
(* tokens, each with a life of its own, beside at most one nameless intent *)
(* of a writer. The key ends with the longest of them.                     *)
(* - A reader joins unless a writer's token is there, or an intent, and the*)
(*   reader is not in the set yet.                                         *)
(* - A writer takes the key unless another writer's token or a reader is   *)
(*   there. The reader may have the same token. An intent does not matter. *)
(* - A writer that waits sets the intent where readers are, nothing else.  *)
(*   One that waits no more takes it away, whoever else has set it.        *)
(* - EXTEND of a lease counts masters that hold the token in the mode of   *)
(*   the lease. Nothing shortens a life.                                   *)
(* - A lease that was extended is put back where it was missing, in spite  *)
(*   of intents. This is no vote.                                          *)
(* - UNLOCK of a reader leaves the others, and the key ends with them.     *)
(* - HOLD puts a new token in the place of a reader's on masters that have*)
(*   it in the set, which lives no shorter there. A quorum of them is the  *)
(*   lease. Where too few have it, the old token is put back.              *)
(* - A failed attempt takes back only what it has set itself, and only if  *)
(*   no other attempt has counted on it since (Lock has how masters    *)
(*   tell).                                                                *)
(*                                                                         *)
(* Time is in ticks. What is set lives for the TTL from then on, a lease   *)
(* for the TTL from the first vote. It is held from the last vote of a     *)
(* quorum on, which is the earliest moment. An attempt or a lease may be   *)
(* given up at any moment. UNLOCK reaches each master at any time, or      *)
(* never; the caller does not use the token any more. A token that has gone*)
(* from all masters stands for a new one.                                  *)
(*                                                                         *)
(* Left out: commands of attempts that are over, which come late: they can *)
(* only keep others away, or let a reader in that was one before. Masters  *)
(* that forget, and clocks, which other modules have. What the old token is*)
(* used for while HOLD is under way.                                       *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule.                               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Masters, Nobody,
  Proxies,    \* each has one attempt or lease at a time
  Readers,    \* the tokens that ask with SHARED
  Writers,    \* the tokens that ask without
  TTLs,       \* what callers ask for
  IntentTTL,  \* 0: there are no intents
  Extends,    \* whether there is EXTEND
  Takes,      \* whether there is HOLD of a reader's lock
  Undoes,     \* whether failed attempts take back what they have set
  MReaderQuorum,   \* for a reader, one vote less is enough
  MBlindWriter,    \* a writer does not look at readers
  MUpgrade,        \* a writer takes the key from readers if one of them has its token
  MWithdrawAll,    \* who takes the intent away takes the set away
  MIntentIsEmpty,  \* a set with an intent counts as one without readers
  MJoinsWriter,    \* a reader does not look at a writer's token
  MNoIntent,       \* a reader does not look at the intent
  MAnyMode,        \* EXTEND of a lease counts masters that hold the token in the other mode, too
  MShortens,       \* EXTEND may shorten a life
  MRefillVotes,    \* putting back is a vote
  MRefillBlind,    \* what is put back takes the place of what is there
  MUnlockAll,      \* UNLOCK of a reader deletes the key
  MFirstEnds,      \* the key ends with the first reader that has joined
  MExtendNoEnd,    \* EXTEND of a reader does not move the end of the key
  MIntentEnds,     \* the key ends with the intent
  MFromLast,       \* a lease lives from its last vote
  MTakeShortens,   \* HOLD for a shorter time shortens
  MTakeBlind,      \* HOLD counts masters that do not have the old token
  MBackDeletes,    \* a HOLD that has failed takes the new token away, and does not put the old one back
  MNotMoved        \* a failed attempt takes back what another attempt counts on

Tokens == Readers \cup Writers
Quorum == Cardinality(Masters) \div 2 + 1
Max(x, y) == IF x > y THEN x ELSE y
Less(x) == Max(0, x - 1)

VARIABLES
  key,   \* each master's key: the writer, the life of each token, of the intent, of the key
  att,   \* each proxy's attempt or lease
  spent, \* tokens that were unlocked and are not gone
  bar    \* a quorum of masters that have had an intent all the time, and the tokens that were on no master meanwhile
vars == <<key, att, spent, bar>>

NoKey == [writer |-> Nobody, life |-> [t \in Tokens |-> 0], intent |-> 0, ends |-> 0]
Idle == [token |-> Nobody, mode |-> "", ext |-> FALSE, ttl |-> 0, left |-> 0, votes |-> {}, set |-> {}, failed |-> FALSE,
         to |-> Nobody, toTTL |-> 0, toLeft |-> 0, took |-> {}, quit |-> FALSE]

Init ==
  /\ key = [m \in Masters |-> NoKey]
  /\ att = [p \in Proxies |-> Idle]
  /\ spent = {}
  /\ bar = [on |-> {}, new |-> {}]

Votes(a) == Cardinality(a.votes)
Holds(p) == LET a == att[p] IN ~a.failed /\ Votes(a) >= (IF MReaderQuorum /\ a.mode = "r" THEN Quorum - 1 ELSE Quorum)

(* The caller has a lease. *)
Leased(t, mode) == \E p \in Proxies : Holds(p) /\ att[p].token = t /\ att[p].mode = mode

(* Tokens of HOLDs under way: nobody knows the new one, and the caller sends nothing else with the old one. *)
New == {att[q].to : q \in Proxies} \ {Nobody}
Changing == New \cup {att[q].token : q \in {x \in Proxies : att[x].to # Nobody}}

(* The readers of a master. *)
In(k) == {t \in Tokens : k.writer = Nobody /\ k.life[t] > 0}
Longest(k) == LET all == {k.life[t] : t \in Tokens} \cup {k.intent} IN CHOOSE x \in all : \A y \in all : x >= y
Ended(k) == IF Longest(k) = 0 THEN NoKey ELSE [k EXCEPT !.ends = Longest(k)]
Gone(keys) == {t \in Tokens : \A m \in Masters : keys[m].life[t] = 0}

(* What each step makes of bar. A new token is that of a reader which was one before. *)
\* code: none: what NewReadersWait is about
Watch ==
  LET live == {m \in Masters : key'[m].intent > 0}
      on == IF Cardinality(bar.on \cap live) >= Quorum THEN bar.on \cap live ELSE IF Cardinality(live) >= Quorum THEN live ELSE {}
  IN bar' = [on |-> on, new |-> IF on = {} THEN {} ELSE (Gone(key') \cup IF on \subseteq bar.on THEN bar.new ELSE {})
                                                                \ {att'[q].to : q \in {x \in Proxies : att'[x].token \notin bar.new}}]
---------------------------------------------------------------------------------
(* What masters do. *)

Join(k, t, ttl) ==
  LET set == [(IF k.writer = Nobody THEN k ELSE NoKey) EXCEPT !.life[t] = Max(@, ttl)]
  IN IF MFirstEnds /\ k.ends > 0 THEN [set EXCEPT !.ends = k.ends] ELSE Ended(set)

Take(k, t, ttl) == Ended([NoKey EXCEPT !.writer = t, !.life[t] = IF k.writer = t THEN Max(k.life[t], ttl) ELSE ttl])

Extend(k, t, ttl) ==
  LET extended == [k EXCEPT !.life[t] = IF MShortens THEN ttl ELSE Max(@, ttl)]
  IN IF MExtendNoEnd /\ k.writer = Nobody THEN extended ELSE Ended(extended)

Remove(k, t) == IF k.writer = t \/ MUnlockAll THEN NoKey ELSE Ended([k EXCEPT !.life[t] = 0])

MayJoin(k, t) == (k.writer = Nobody \/ MJoinsWriter) /\ (k.intent = 0 \/ k.life[t] > 0 \/ MNoIntent)
MayTake(k, t) ==
  \/ k.writer = t
  \/ k.writer = Nobody /\ (In(k) = {} \/ MBlindWriter \/ (MUpgrade /\ t \in In(k)) \/ (MIntentIsEmpty /\ k.intent > 0))
IsThere(k, t, mode) == k.life[t] > 0 /\ (MAnyMode \/ (k.writer = t) = (mode = "w"))
Grants(k, a) == IF a.ext THEN IsThere(k, a.token, a.mode) ELSE IF a.mode = "r" THEN MayJoin(k, a.token) ELSE MayTake(k, a.token)
Result(k, a) == IF a.ext THEN Extend(k, a.token, a.ttl) ELSE IF a.mode = "r" THEN Join(k, a.token, a.ttl) ELSE Take(k, a.token, a.ttl)

(* Master m votes for p's attempt a. If it finds the token, a counts on what others have set. *)
Grant(p, a, m) ==
  LET found == key[m].life[a.token] > 0
  IN /\ Grants(key[m], a)
     /\ key' = [key EXCEPT ![m] = Result(@, a)]
     /\ att' = [q \in Proxies |->
          IF q = p THEN [a EXCEPT !.votes = @ \cup {m}, !.left = IF MFromLast THEN a.ttl ELSE @, !.set = IF found \/ ~Undoes THEN @ ELSE @ \cup {m}]
          ELSE IF att[q].token = a.token /\ found /\ ~MNotMoved THEN [att[q] EXCEPT !.set = @ \ {m}] ELSE att[q]]
     /\ UNCHANGED spent
---------------------------------------------------------------------------------
(* An attempt begins with its first vote. *)
\* code: Client.beginLockLocked, Client.beginExtendLocked, writeJoin, lua/join.lua, lua/acquire.lua; trace: SharedTrace
Begin(p, m) ==
  /\ att[p] = Idle
  /\ \E mode \in {"r", "w"} : \E t \in (IF mode = "r" THEN Readers ELSE Writers) \ (spent \cup Changing) : \E ttl \in TTLs, ext \in IF Extends THEN BOOLEAN ELSE {FALSE} :
       /\ (ext /\ MAnyMode) => Leased(t, mode)
       /\ Grant(p, [Idle EXCEPT !.token = t, !.mode = mode, !.ext = ext, !.ttl = ttl, !.left = ttl], m)

\* code: writeJoin, writeAcquire, writeExtend, lua/join.lua, lua/acquire.lua, lua/extend.lua, lua/lengthen.lua; trace: SharedTrace
Vote(p, m) == att[p] # Idle /\ ~att[p].failed /\ m \notin att[p].votes /\ Grant(p, att[p], m)

\* code: Client.refillLocked, writeRefill, lua/join.lua, lua/acquire.lua; trace: SharedTrace
Refill(p, m) ==
  LET a == att[p]
      k == key[m]
  IN /\ a.ext /\ m \notin a.votes /\ k.life[a.token] = 0
     /\ MRefillBlind \/ (k.writer = Nobody /\ (a.mode = "r" \/ In(k) = {}))
     /\ Holds(p) \/ MRefillVotes
     /\ key' = [key EXCEPT ![m] = IF a.mode = "r" THEN Join(k, a.token, a.ttl) ELSE Take(k, a.token, a.ttl)]
     /\ att' = IF MRefillVotes THEN [att EXCEPT ![p].votes = @ \cup {m}] ELSE att
     /\ UNCHANGED spent

(* An attempt ends, or a lease that nobody counts on any more. *)
\* code: none: an attempt ends, or nobody counts on a lease any more
End(p) ==
  /\ att[p] # Idle
  /\ att' = [att EXCEPT ![p] = Idle]
  /\ spent' = spent \cup ({att[p].to} \ (Gone(key) \cup {Nobody}))
  /\ UNCHANGED key

(* HOLD of a reader's lease: master m has the new token, which nobody has used. The client believes in the lease as it was, until it is
   answered. *)
\* code: Client.takeover, lua/commit.lua, lua/moved.lua; trace: SharedTrace
Exchange(p, m) ==
  LET a == att[p]
      k == key[m]
  IN /\ Takes /\ Holds(p) /\ a.mode = "r" /\ ~a.quit /\ m \notin a.took /\ \A q \in Proxies \ {p} : att[q].token # a.token
     /\ \E u \in (IF a.to = Nobody THEN (Readers \cap Gone(key)) \ (spent \cup New \cup {att[q].token : q \in Proxies}) ELSE {a.to}) :
        \E ttl \in (IF a.to = Nobody THEN TTLs ELSE {a.toTTL}) :
          LET there == IsThere(k, a.token, "r")
              left == IF a.to = Nobody THEN ttl ELSE a.toLeft
              took == a.took \cup {m}
          IN /\ there \/ MTakeBlind
             /\ key' = [key EXCEPT ![m] = IF ~there THEN k ELSE Ended([k EXCEPT !.life[a.token] = 0, !.life[u] = IF MTakeShortens THEN ttl ELSE Max(k.life[a.token], ttl)])]
             /\ att' = [att EXCEPT ![p] = IF Cardinality(took) < Quorum THEN [a EXCEPT !.to = u, !.toTTL = ttl, !.toLeft = left, !.took = took]
                  ELSE [Idle EXCEPT !.token = u, !.mode = "r", !.ttl = ttl, !.left = left, !.votes = took]]
             /\ spent' = IF Cardinality(took) < Quorum THEN spent ELSE spent \cup ({a.token} \ Gone(key'))

(* HOLD has found too few. *)
\* code: Client.commitDecided
Quit(p) ==
  /\ att[p].to # Nobody /\ ~att[p].quit
  /\ att' = [att EXCEPT ![p].quit = TRUE]
  /\ UNCHANGED <<key, spent>>

\* code: Client.takeBackCommitLocked, Change.undo, lua/undo.lua; trace: SharedTrace
PutBack(p, m) ==
  LET a == att[p]
      k == key[m]
      back == [k EXCEPT !.life[a.to] = 0, !.life[a.token] = IF MBackDeletes THEN @ ELSE Max(@, k.life[a.to])]
  IN /\ a.quit /\ m \in a.took
     /\ att' = [att EXCEPT ![p] = IF a.took = {m} THEN [a EXCEPT !.to = Nobody, !.toTTL = 0, !.toLeft = 0, !.took = {}, !.quit = FALSE] ELSE [a EXCEPT !.took = @ \ {m}]]
     /\ key' = [key EXCEPT ![m] = IF k.life[a.to] = 0 THEN k ELSE Ended(back)]
     /\ UNCHANGED spent

(* A failed attempt takes back what it has set, at any time later. *)
\* code: Client.failedLocked, Client.undoLocked
Fail(p) ==
  /\ Undoes /\ ~att[p].failed /\ att[p].to = Nobody /\ att[p].set # {}
  /\ att' = [att EXCEPT ![p] = [Idle EXCEPT !.token = att[p].token, !.set = att[p].set, !.failed = TRUE]]
  /\ UNCHANGED <<key, spent>>

\* code: Client.takeBackLocked, lua/undo.lua, lua/leave.lua; trace: SharedTrace
Undo(p, m) ==
  LET a == att[p]
  IN /\ a.failed /\ m \in a.set
     /\ att' = [att EXCEPT ![p] = IF a.set = {m} THEN Idle ELSE [a EXCEPT !.set = @ \ {m}]]
     /\ key' = [key EXCEPT ![m] = Remove(@, a.token)]
     /\ UNCHANGED spent

(* From here on nobody counts on the token. Before HOLD answers, nobody knows the new one. *)
\* code: Client.StartUnlock, leases.grant; trace: SharedTrace
Unlock(t) ==
  /\ t \in Tokens \ (spent \cup Gone(key) \cup New)
  /\ spent' = spent \cup {t} \cup ({att[q].to : q \in {x \in Proxies : att[x].token = t}} \ (Gone(key) \cup {Nobody}))
  /\ att' = [q \in Proxies |-> IF att[q].token = t THEN Idle ELSE att[q]]
  /\ UNCHANGED key

\* code: writeRelease, lua/release.lua, lua/leave.lua; trace: SharedTrace
Released(t, m) ==
  /\ t \in spent /\ key[m].life[t] > 0
  /\ key' = [key EXCEPT ![m] = Remove(@, t)]
  /\ spent' = spent \ Gone(key')
  /\ UNCHANGED att

(* A writer waits that readers have denied. *)
\* code: waiting.observeLocked, writeAnnounce, lua/announce.lua; trace: SharedTrace
Announce(m) ==
  LET k == [key[m] EXCEPT !.intent = IntentTTL]
  IN /\ IntentTTL > key[m].intent /\ In(key[m]) # {} /\ Writers # {}
     /\ key' = [key EXCEPT ![m] = IF MIntentEnds THEN [k EXCEPT !.ends = IntentTTL] ELSE Ended(k)]
     /\ UNCHANGED <<att, spent>>

(* A writer waits no more. The intent may be that of another one, who sets it again. *)
\* code: waiting.withdrawLocked, writeWithdraw, lua/withdraw.lua; trace: SharedTrace
Withdraw(m) ==
  /\ key[m].intent > 0
  /\ key' = [key EXCEPT ![m] = IF MWithdrawAll THEN NoKey ELSE Ended([@ EXCEPT !.intent = 0])]
  /\ UNCHANGED <<att, spent>>

\* code: none: time passes
Tick ==
  /\ key' = [m \in Masters |->
       LET k == key[m]
           later == [k EXCEPT !.life = [t \in Tokens |-> Less(@[t])], !.intent = Less(@), !.ends = Less(@)]
       IN IF k.ends <= 1 THEN NoKey ELSE later]
  /\ att' = [p \in Proxies |->
       LET a == att[p]
           left == {m \in a.set : key'[m].life[a.token] > 0}
            IN IF (IF a.failed THEN left = {} ELSE a.left <= 1) THEN Idle
          ELSE [a EXCEPT !.left = Less(@), !.set = left, !.toLeft = Less(@), !.quit = @ \/ (a.to # Nobody /\ a.toLeft <= 1)]]
  /\ spent' = (spent \cup {att[q].to : q \in {x \in Proxies : att'[x] = Idle}}) \ (Gone(key') \cup {Nobody})

Next ==
  /\ \/ Tick
     \/ \E p \in Proxies : End(p) \/ Fail(p) \/ Quit(p) \/ \E m \in Masters : Begin(p, m) \/ Vote(p, m) \/ Refill(p, m) \/ Undo(p, m) \/ Exchange(p, m) \/ PutBack(p, m)
     \/ \E t \in Tokens : Unlock(t) \/ \E m \in Masters : Released(t, m)
     \/ \E m \in Masters : Announce(m) \/ Withdraw(m)
  /\ Watch
Spec == Init /\ [][Next]_vars

(* A writer and another token are not held together, nor a token in both modes. *)
Exclusion == \A p, q \in Proxies : Holds(p) /\ Holds(q) /\ att[p].mode = "w" => att[p].token = att[q].token /\ att[q].mode = "w"
(* While a quorum has an intent, no reader is granted that was on no master meanwhile. *)
NewReadersWait == \A p \in Proxies : Holds(p) => att[p].token \notin bar.new \/ att[p].mode = "w"
Perms == Permutations(Masters) \cup Permutations(Proxies) \cup Permutations(Readers \ Writers) \cup Permutations(Writers \ Readers)
         \cup Permutations(Readers \cap Writers)
==================================================================================
