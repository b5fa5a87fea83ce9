// Package lnet reads Lustre's network layer: what lnetctl prints of the node's
// network interfaces, peers, routes, counters and global settings, the tables in
// debugfs where there is no lnetctl, and the parameters of LNet's modules.
//
// A reader (ReadX) asks the machine through host.Host; a parser (ParseX) takes
// bytes and is pure. What a release prints is told from the text, never from a
// version number: keys may stand in any order, and one that nobody here knows is
// kept in Unknown and harms nothing. What is not told is nil or "", never 0.
//
// Four traps, which callers must not step into:
//
//   - 0@lo has health value 0 on many a healthy client. Do not judge it (IsLoopback).
//   - The health value climbs back to 1000 while the cable is still out. Status and
//     FatalError tell the truth; debugfs and procfs say "up" all the same
//     (Source.ProvesHealth).
//   - Releases that spare the only interface of a node, or of a peer, count its
//     failed messages but leave its health value alone (lnet/lnet/lib-msg.c,
//     lnet_health_check). Counters that rise (Classify) tell what the value does not.
//   - A ping of a dead NID leaves a peer with health value 1000 behind, for good.
//     Peers are never proof of life.
//
// The package writes nothing, pings nobody, starts no process by itself, keeps no
// state and does not log. Package gate calls it in the prolog, so it is quick.
package lnet
