---------------------------------- MODULE Replay ----------------------------------
(***************************************************************************)
(* How a module goes through traces, one event after the other. It has to  *)
(* say which events may happen.                                            *)
(*                                                                         *)
(* A trace may list changes of itself: drop so many events from one on,    *)
(* and put others there. A run follows the trace as it is, and each of its *)
(* changes from where that begins. Of what is followed to its end, or but  *)
(* for its last event, the number of events is printed.                    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC, Traces

CONSTANT Verbose \* TRUE: each event that is accepted is printed

VARIABLES
  tr,    \* which trace
  next,  \* the event to come
  change \* which change is followed. 0: none
replay == <<tr, next, change>>

Trace == Traces[tr]
Range(s) == {s[i] : i \in DOMAIN s}

Length(c) == Len(Trace.events) + IF c = 0 THEN 0 ELSE Len(Trace.changes[c].events) - Trace.changes[c].drop
EventOf(c) ==
  IF c = 0 \/ next < Trace.changes[c].at THEN Trace.events[next]
  ELSE LET new == Trace.changes[c].events
           i == next - Trace.changes[c].at + 1
       IN IF i <= Len(new) THEN new[i] ELSE Trace.events[next - Len(new) + Trace.changes[c].drop]

RInit ==
  /\ tr \in 1..Len(Traces)
  /\ next = 1
  /\ change = 0

(* What may be followed: as before, or a change that begins here. *)
Ways == {c \in {change} \cup (IF change = 0 THEN {c \in DOMAIN Trace.changes : Trace.changes[c].at = next} ELSE {}) : next <= Length(c)}

Follow(c) ==
  /\ tr' = tr
  /\ next' = next + 1
  /\ change' = c

(* The event of the way c is accepted. *)
Accepted(c) == (next >= Length(c) - 1 \/ Verbose) => PrintT(<<"accepted", tr, c, next>>)
===================================================================================
