---------------------------------- MODULE Lock ----------------------------------
(***************************************************************************)
(* The lock algorithm, on one resource. Masters end keys and may forget    *)
(* everything. Proxies ask masters to set the key to a token, at different *)
(* moments and in any order; a request or a reply may never arrive. Who    *)
(* may believe that it holds the lock, and until when?                     *)
(*                                                                         *)
(* The rule: a master sets a key that is free, or lengthens the life of    *)
(* one that holds the same token already (a repeated LOCK, an EXTEND). It  *)
(* has a vote if it remembers: a memory that is new gets it after a wait   *)
(* that is longer than any lock. A lease ends no later than the keys of a  *)
(* quorum of masters that have voted for it. The caller who sends UNLOCK   *)
(* believes in nothing from then on, and only then, or if the attempt has  *)
(* failed, is the key deleted, wherever it holds the token.                *)
(*                                                                         *)
(* A caller may choose its token, and repeat its LOCK through another      *)
(* proxy. Then one proxy may take back what the other counts on. So it     *)
(* deletes only a key that ends when its own attempt has made it end,      *)
(* which it knows up to Slack; and who finds its token on a master and     *)
(* counts on it moves the end by at least Move. A key that was set when    *)
(* that of another attempt had ended must end later by more than Slack,    *)
(* too: so each TTL is longer than Slack.                                  *)
(*                                                                         *)
(* A forced release ends the lock of a caller who goes on, and who may     *)
(* lock again with its token. So it too deletes only keys that end when    *)
(* those end that it has found. Who is to stop is not modelled: what the   *)
(* caller was told before counts no more.                                  *)
(*                                                                         *)
(* Each action says what may happen at the moment n by true time, where c  *)
(* is what the master's clock says, in its own unit. Trace.tla uses these  *)
(* actions, too. Here all clocks are one, and count ticks.                 *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule.                               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Masters, Proxies, Nobody,
  Own,         \* tokens that a proxy has made: for one attempt, through that proxy
  Forcers,     \* the proxies through which locks are released by force, and which ask for none
  Callers,     \* tokens that callers have chosen: for any number of attempts, through any proxies, until UNLOCK
  TTLs,        \* for how long locks are asked for
  Slack,       \* how well a proxy knows when its attempt has made a key end
  Move,        \* by how much who counts on a key that is there moves its end
  Again,       \* TRUE: each master is asked any number of times for a token (EXTEND), callers give up, and tokens that are gone are new ones. FALSE: once
  MaxForgets,  \* how often masters forget, in all
  MQuorum,     \* one vote less is enough
  MNoMemory,   \* a master that has forgotten has its vote all the same
  MHalfWait,   \* it gets its vote back too early
  MValidity,   \* a lease is counted from the last vote
  MBlind,      \* an undo does not look at the end of the key
  MNoMove,     \* who counts on a key does not move its end
  MShortMove,  \* or no farther than the undo may err
  MShortens,   \* who counts on a key gives it its own TTL, which may be shorter
  MBlindRelease, \* a release deletes whatever key there is
  MForceNew,     \* a forced release takes keys that were set just now
  MReleaseHeld   \* what a caller has repeated is released when one of the attempts fails

Tokens == Own \cup Callers
Quorum == Cardinality(Masters) \div 2 + (IF MQuorum THEN 0 ELSE 1)
Max(x, y) == IF x > y THEN x ELSE y
NoKey == [of |-> Nobody, end |-> 0]
Nothing == [m \in Masters |-> 0]

VARIABLES
  now,
  key,   \* what a master holds: whose, and when it ends by the master's clock
  votes, \* whether a master has a vote
  lost,  \* when it has forgotten last
  worth, \* by proxy, token and master: until when a lease may count on the master's vote. 0: there is none
  set,   \* by proxy, token and master: the end of a key that the proxy has set, and may take back. 0: there is none
  lease, \* by token: until when its caller believes in the lock
  over,  \* the tokens that are given up
  forgets
vars == <<now, key, votes, lost, worth, set, lease, over, forgets>>

Start(admitted) ==
  /\ now = 0
  /\ key = [m \in Masters |-> NoKey]
  /\ votes = [m \in Masters |-> admitted]
  /\ lost = [m \in Masters |-> 0]
  /\ worth = [p \in Proxies |-> [t \in Tokens |-> Nothing]]
  /\ set = [p \in Proxies |-> [t \in Callers |-> Nothing]]
  /\ lease = [t \in Tokens |-> 0]
  /\ over = {}
  /\ forgets = 0
Init == Start(TRUE)

(* A key that has ended is no key. *)
Held(m, c) == IF key[m].end > c THEN key[m] ELSE NoKey

(* May a key that ends at `old' end at `new', when a token counts on it again for ttl? One that lives longer than any lock was moved before. *)
Touches(old, new, c, ttl, longest, move) == new >= old /\ new >= c + ttl /\ (new >= old + move \/ old - c > longest)

(* A master executes a LOCK or an EXTEND for the token, and the key then ends at e. A lease may count on it until w. *)
\* code: Client.askLocked, writeSet, writeAcquire, writeExtend, lua/acquire.lua, lua/extend.lua, lua/ends.lua, Client.vote; trace: Trace
Vote(m, p, t, c, ttl, e, w, longest, move) ==
  LET held == Held(m, c) IN
  /\ \/ held.of = Nobody /\ e = c + ttl
     \/ held.of = t /\ (Touches(held.end, e, c, ttl, longest, move) \/ MShortens)
  /\ key' = [key EXCEPT ![m] = [of |-> t, end |-> e]]
  /\ worth' = IF (votes[m] \/ MNoMemory) /\ t \notin over THEN [worth EXCEPT ![p][t][m] = Max(@, w)] ELSE worth
  /\ set' = IF held.of = Nobody /\ t \in Callers THEN [set EXCEPT ![p][t][m] = e] ELSE set
  /\ UNCHANGED <<votes, lost, lease, over, forgets>>

(* The quorums whose votes for a token allow a lease until u. *)
Backing(p, t, u) == {Q \in SUBSET {m \in Masters : worth[p][t][m] >= u} : Cardinality(Q) = Quorum}

(* The caller is told that it holds the lock until u, because of the votes of one of these quorums. They are not taken back any more. *)
\* code: Client.acquisitionDecided, verdictOf, Client.validityOf, Client.grantedLocked, Client.extensionDecided; trace: Trace
Grant(p, t, n, u, backing) ==
  /\ t \notin over
  /\ n <= u
  /\ \/ t \in Own /\ backing # {} /\ set' = set
     \/ t \in Callers /\ \E Q \in backing : set' = [set EXCEPT ![p][t] = [m \in Masters |-> IF m \in Q THEN 0 ELSE @[m]]]
  /\ lease' = [lease EXCEPT ![t] = Max(@, u)]
  /\ UNCHANGED <<key, votes, lost, worth, over, forgets>>

(* The caller believes in the lock no more, and sends UNLOCK or does not. Or the attempt has failed, under a token of the proxy's own. *)
\* code: Client.StartUnlock, leases.end; trace: Trace
GiveUp(t) ==
  /\ over' = over \cup {t}
  /\ lease' = [lease EXCEPT ![t] = 0]
  /\ worth' = [p \in Proxies |-> [worth[p] EXCEPT ![t] = Nothing]]
  /\ UNCHANGED <<key, votes, lost, set, forgets>>

(* A release is executed: any number of times, at any time, or never. *)
\* code: Client.releaseLocked, rounds.drop, Client.releaseDecided, flushReleases, lua/release.lua; trace: Trace
Release(m, t) ==
  /\ t \in over \/ MReleaseHeld
  /\ key[m].of = t \/ (MBlindRelease /\ key[m].of # Nobody)
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ UNCHANGED <<votes, lost, worth, set, lease, over, forgets>>

(* The same of an attempt that has failed: nobody was told its token. *)
ReleaseFailed(m, t) ==
  /\ t \in Own
  /\ key[m].of = t
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ over' = over \cup {t}
  /\ worth' = [p \in Proxies |-> [worth[p] EXCEPT ![t] = Nothing]]
  /\ UNCHANGED <<votes, lost, set, lease, forgets>>

(* A proxy takes back what an attempt has set under a token that its caller has chosen. *)
\* code: Client.undoLocked, Client.takeBackLocked, Client.lateAttempt, attempt.setOn, lua/undo.lua; trace: Trace
Undo(m, p, t) ==
  /\ set[p][t][m] # 0
  /\ key[m].of = t
  /\ MBlind \/ (key[m].end <= set[p][t][m] + Slack /\ set[p][t][m] <= key[m].end + Slack)
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ set' = [set EXCEPT ![p][t][m] = 0]
  /\ worth' = [worth EXCEPT ![p][t][m] = 0]
  /\ UNCHANGED <<votes, lost, lease, over, forgets>>

(* A forced release has found a caller's token on a quorum of masters: from now on Undo may delete these keys. It is taken for granted that they end so *)
(* soon, by `latest', that no key which is set from now on ends then, too. *)
\* code: Client.StartForce, Client.markRaised, Client.releaseHoldersLocked, lua/raise.lua, lua/force.lua
Force(p, t, c, latest) ==
  LET found == {m \in Masters : Held(m, c).of = t} IN
  /\ Cardinality(found) >= Quorum
  /\ \A m \in found : key[m].end <= latest
  /\ set' = [set EXCEPT ![p][t] = [m \in Masters |-> IF m \in found THEN key[m].end ELSE @[m]]]
  /\ lease' = [lease EXCEPT ![t] = 0]
  /\ worth' = [q \in Proxies |-> [worth[q] EXCEPT ![t] = Nothing]]
  /\ UNCHANGED <<key, votes, lost, over, forgets>>

(* A master restarts without its data, or is flushed. *)
\* code: none: a master restarts without its data, or is flushed
Forget(m, n) ==
  /\ key' = [key EXCEPT ![m] = NoKey]
  /\ votes' = [votes EXCEPT ![m] = FALSE]
  /\ lost' = [lost EXCEPT ![m] = n]
  /\ forgets' = forgets + 1
  /\ UNCHANGED <<worth, set, lease, over>>

(* It gets its vote back. *)
\* code: member.Situation.promotes, member.wait.Left, lane.shows; trace: Trace
Admit(m, n, wait) ==
  /\ n >= lost[m] + wait
  /\ votes' = [votes EXCEPT ![m] = TRUE]
  /\ UNCHANGED <<key, lost, worth, set, lease, over, forgets>>

(* Nobody will hear of a token again that nobody believes in. *)
\* code: none: nobody hears of the token again
Gone(t, n) ==
  /\ lease[t] <= n
  /\ worth' = [p \in Proxies |-> [worth[p] EXCEPT ![t] = Nothing]]
  /\ set' = IF t \in Callers THEN [p \in Proxies |-> [set[p] EXCEPT ![t] = Nothing]] ELSE set
  /\ lease' = [lease EXCEPT ![t] = 0]
  /\ over' = over \ {t}
  /\ UNCHANGED <<key, votes, lost, forgets>>

(* The actions within the bounds of a run. Times grow without end; View makes that a finite number of states. *)
Longest == CHOOSE l \in TTLs : \A ttl \in TTLs : ttl <= l
End(m, t, ttl) ==
  LET held == Held(m, now)
      move == IF MNoMove THEN 0 ELSE IF MShortMove THEN Slack ELSE Move
  IN IF held.of = Nobody \/ MShortens THEN now + ttl
     ELSE IF now + ttl >= held.end + move \/ held.end - now > Longest THEN Max(held.end, now + ttl)
     ELSE held.end + move

Step ==
  \/ \E t \in Tokens, p \in Proxies :
       \/ \E m \in Masters, ttl \in TTLs :
            /\ p \notin Forcers
            /\ t \notin over
            /\ Again \/ worth[p][t][m] = 0
            /\ t \in Own => \A q \in Proxies \ {p} : worth[q][t] = Nothing
            /\ Vote(m, p, t, now, ttl, End(m, t, ttl), now + ttl, Longest, IF MNoMove \/ MShortMove THEN 0 ELSE Move)
       \/ \E u \in (IF MValidity THEN {now + ttl : ttl \in TTLs} ELSE {worth[p][t][m] : m \in Masters}) :
            u > now /\ u > lease[t] /\ Grant(p, t, now, u, Backing(p, t, IF MValidity THEN now + 1 ELSE u))
       \/ t \in Callers /\ \E m \in Masters : Undo(m, p, t)
       \/ t \in Callers /\ p \in Forcers /\ Force(p, t, now, now + Longest - (IF MForceNew THEN 0 ELSE Slack + 1))
  \/ \E t \in Tokens \ over : Again /\ GiveUp(t)
  \/ \E t \in Tokens, m \in Masters : Release(m, t)
  \/ \E m \in Masters : forgets < MaxForgets /\ Forget(m, now)
  \/ \E m \in Masters : ~votes[m] /\ Admit(m, now, IF MHalfWait THEN Longest - 1 ELSE Longest)
  \/ \E t \in over : Again /\ (\A m \in Masters : Held(m, now).of # t) /\ Gone(t, now)

\* code: none: time passes
Tick ==
  /\ now' = now + 1
  /\ UNCHANGED <<key, votes, lost, worth, set, lease, over, forgets>>

Next == Tick \/ (UNCHANGED now /\ Step)
Spec == Init /\ [][Next]_vars

MutualExclusion == \A t, u \in Tokens : t # u => lease[t] <= now \/ lease[u] <= now

Perms == Permutations(Masters) \cup Permutations(Forcers) \cup Permutations(Proxies \ Forcers) \cup Permutations(Own) \cup Permutations(Callers)

(* All that matters of the times is how far away they are. *)
Left(x) == IF x > now THEN x - now ELSE 0
View ==
  <<[m \in Masters |-> <<Held(m, now).of, Left(key[m].end)>>],
    [m \in Masters |-> IF votes[m] THEN 0 ELSE 1 + Left(lost[m] + Longest)],
    [p \in Proxies |-> [t \in Tokens |-> [m \in Masters |-> Left(worth[p][t][m])]]],
    [p \in Proxies |-> [t \in Callers |-> [m \in Masters |-> IF set[p][t][m] = 0 \/ set[p][t][m] + Slack <= now THEN "none" ELSE set[p][t][m] - now]]],
    [t \in Tokens |-> Left(lease[t])], over, forgets>>
=================================================================================
