---------------------------------- MODULE Late ----------------------------------
(***************************************************************************)
(* Commands that come late. A caller has sent something through a redlockd *)
(* and got no answer. It goes on through another one, while the command    *)
(* still waits in a connection of the first. What may be executed late     *)
(* without taking away what the caller was told since?                     *)
(*                                                                         *)
(* The rule (master_late.go): a release, a deletion and a PEXPIRE, under a *)
(* token that its caller may use again, and whatever sets a version, carry *)
(* a time of the master's clock behind which they are not executed. A vote *)
(* is given up after Timeout. What is known of the master's clock may be   *)
(* wrong by Margin, so the command has Timeout less Margin. A LOCK and an  *)
(* EXTEND need no bound: they bring no end nearer (Lock.tla). What takes   *)
(* failed attempts back needs none, because it compares the end (Lock.tla, *)
(* MBlind), and tokens that a redlockd has made serve one attempt alone.   *)
(*                                                                         *)
(* One resource, and a caller with a token of its own, who holds the lock  *)
(* at the start if Held. It sends each command to all masters, and goes on *)
(* when a quorum has answered, or after Timeout. Commands of one redlockd  *)
(* reach a master in order. Those of the one before come at any time, in   *)
(* any order, or never.                                                    *)
(*                                                                         *)
(* Another client would be granted the lock as soon as a quorum of masters *)
(* have no key: that must not be while the caller believes in it. That the *)
(* caller is granted nothing while another one holds it is in Lock.tla.    *)
(*                                                                         *)
(* With Versions the caller's LOCK puts a version in the place of nothing. *)
(* When that is given up, and no quorum holds it, the caller is told that  *)
(* it was not made (op_undo.go): then no quorum must come to hold it.      *)
(*                                                                         *)
(* What is taken for granted is a constant, too: a caller changes to       *)
(* another redlockd only when the first does not answer (Wanders), and     *)
(* clocks are not set back meanwhile (Back).                               *)
(*                                                                         *)
(* The error of what is known of a clock is as large as it may be here,    *)
(* and has the master execute what is later.                               *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule.                               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Masters,
  Rounds,   \* how many commands the caller sends
  Kinds,    \* which: "lock", "free" (UNLOCK, a deletion), "short" and "long" (PEXPIRE)
  Timeout,  \* when a vote is given up, in ticks: master_timeout
  Margin,   \* by how much what is known of a master's clock may be wrong
  Long,     \* for how long "lock" and "long" are
  Short,    \* for how long "short" is
  Held,     \* TRUE: the caller holds the lock at the start
  Versions, \* TRUE: a LOCK sets a version
  Wanders,  \* TRUE: the caller goes on through another redlockd although the first has answered
  Back,     \* by how much masters' clocks are set back
  MFreeLate,   \* a release and a deletion are executed whenever they come
  MExpireLate, \* a PEXPIRE is
  MSetLate,    \* what sets a version is
  MNoMargin    \* commands have the whole Timeout

Quorum == Cardinality(Masters) \div 2 + 1
Max(i, j) == IF i > j THEN i ELSE j
Min(i, j) == IF i < j THEN i ELSE j
Less(i) == Max(0, i - 1)
Never == 99

VARIABLES
  key,   \* for how many ticks each master holds the caller's key; 0: it holds none
  line,  \* the caller's commands on the connections of its redlockd, in order: what, for how many ticks they are executed, whether a vote counts
  late,  \* those on connections of earlier ones
  op,    \* the caller's command that is not answered: what, its age, the votes
  lease, \* the ticks for which the caller believes in its lock
  begun, \* how many commands the caller has sent
  told,  \* it was told that its LOCK was not made
  back   \* how much of Back
vars == <<key, line, late, op, lease, begun, told, back>>

NoOp == [what |-> "none", age |-> 0, votes |-> {}]
Holders == {m \in Masters : key[m] > 0}

Init ==
  /\ key = [m \in Masters |-> IF Held THEN Long ELSE 0]
  /\ line = [m \in Masters |-> <<>>]
  /\ late = [m \in Masters |-> {}]
  /\ op = NoOp
  /\ lease = IF Held THEN Long ELSE 0
  /\ begun = 0 /\ told = FALSE /\ back = 0
---------------------------------------------------------------------------------
(* The caller. *)

Bounded(what) ==
  CASE what = "free" -> ~MFreeLate
    [] what \in {"short", "long"} -> ~MExpireLate
    [] what = "lock" -> Versions /\ ~MSetLate
(* For how many ticks a master executes the command, at most. *)
Executable(what) == IF Bounded(what) THEN Timeout - (IF MNoMargin THEN 0 ELSE Margin) + Margin ELSE Never
TTL(what) == CASE what \in {"lock", "long"} -> Long [] what = "short" -> Short [] what = "free" -> 0

\* code: round.mustBeTimely, batch.latestMs, rounds.launch
Ask(what) ==
  /\ op = NoOp /\ begun < Rounds
  /\ what = "lock" => lease = 0
  /\ op' = [NoOp EXCEPT !.what = what]
  /\ begun' = begun + 1
  /\ lease' = IF what \in {"free", "short"} THEN Min(lease, TTL(what)) ELSE lease
  /\ line' = [m \in Masters |-> Append(line[m], [what |-> what, left |-> Executable(what), asked |-> TRUE])]
  /\ told' = FALSE
  /\ UNCHANGED <<key, late, back>>

(* What is on its way has no vote any more. If the caller goes to another redlockd, it is in no order with what that one sends. *)
Abandoned(cmd) == [cmd EXCEPT !.asked = FALSE]
Stays ==
  /\ line' = [m \in Masters |-> [i \in DOMAIN line[m] |-> Abandoned(line[m][i])]]
  /\ late' = late
Leaves ==
  /\ late' = [m \in Masters |-> late[m] \cup {Abandoned(line[m][i]) : i \in DOMAIN line[m]}]
  /\ line' = [m \in Masters |-> <<>>]

\* code: quorum.Release, quorum.Extension, Client.releaseDecided
Answered ==
  /\ op.what # "none" /\ op.age < Timeout /\ Cardinality(op.votes) >= Quorum
  /\ lease' = IF op.what = "lock" THEN Max(lease, TTL(op.what) - op.age) ELSE Max(0, TTL(op.what) - op.age)
  /\ op' = NoOp
  /\ Stays \/ (Wanders /\ Leaves)
  /\ UNCHANGED <<key, begun, told, back>>

\* code: lane.watch, settleDecided, settleRead
GivenUp ==
  /\ op.age = Timeout
  /\ op' = NoOp
  /\ told' = (op.what = "lock" /\ Cardinality(Holders) < Quorum)
  /\ Stays \/ Leaves
  /\ UNCHANGED <<key, lease, begun, back>>
---------------------------------------------------------------------------------
(* Masters. *)

Execute(m, cmd) ==
  LET does == cmd.what = "lock" \/ key[m] > 0 IN
  /\ key' = [key EXCEPT ![m] = IF ~does THEN @ ELSE IF cmd.what = "lock" THEN Max(@, Long) ELSE TTL(cmd.what)]
  /\ op' = IF cmd.asked /\ does THEN [op EXCEPT !.votes = @ \cup {m}] ELSE op
  /\ UNCHANGED <<lease, begun, told, back>>

\* code: lua/late.lua, lua/acquire.lua, lua/release.lua, lua/commit.lua
InOrder(m) ==
  /\ line[m] # <<>>
  /\ line' = [line EXCEPT ![m] = Tail(@)]
  /\ late' = late
  /\ Execute(m, Head(line[m]))

\* code: lua/late.lua, lua/acquire.lua, lua/release.lua, lua/commit.lua
ComesLate(m) ==
  \E cmd \in late[m] :
    /\ late' = [late EXCEPT ![m] = @ \ {cmd}]
    /\ line' = line
    /\ Execute(m, cmd)
---------------------------------------------------------------------------------
(* Time. A command that comes too late is one that does nothing. *)

Older(cmd) == IF cmd.left = Never THEN cmd ELSE [cmd EXCEPT !.left = Less(@)]
Timely(cmd) == Older(cmd).left > 0

\* code: none: time passes
Tick ==
  /\ op.age < Timeout
  /\ key' = [m \in Masters |-> Less(key[m])]
  /\ line' = [m \in Masters |-> LET there == SelectSeq(line[m], Timely) IN [i \in DOMAIN there |-> Older(there[i])]]
  /\ late' = [m \in Masters |-> {Older(cmd) : cmd \in {c \in late[m] : Timely(c)}}]
  /\ op' = IF op = NoOp THEN op ELSE [op EXCEPT !.age = @ + 1]
  /\ lease' = Less(lease)
  /\ UNCHANGED <<begun, told, back>>

\* code: none: a master's clock is set back, and what waits there is executed for longer
SetBack(m) ==
  /\ back < Back /\ back' = back + 1
  /\ line' = [line EXCEPT ![m] = [i \in DOMAIN @ |-> IF @[i].left = Never THEN @[i] ELSE [@[i] EXCEPT !.left = @ + 1]]]
  /\ UNCHANGED <<key, late, op, lease, begun, told>>

Next ==
  \/ Tick \/ Answered \/ GivenUp
  \/ \E what \in Kinds : Ask(what)
  \/ \E m \in Masters : InOrder(m) \/ ComesLate(m) \/ SetBack(m)
Spec == Init /\ [][Next]_vars

MutualExclusion == lease > 0 => Cardinality(Masters \ Holders) < Quorum
(* What was not made is not made later. *)
StaysUnmade == ~(told /\ Cardinality(Holders) >= Quorum)
Perms == Permutations(Masters)
=================================================================================
