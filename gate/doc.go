// Package gate tells whether a compute node can reach its storage, and what the
// site's policy does about it when it cannot.
//
// Look asks the readers (ib, lnet, lfs, kmsg) and the mounts side by side within
// one deadline; Judge turns what they saw into the outcome of each check; Decide
// applies the policy. Judge and Decide are pure, so that a recorded machine gives
// the verdict that the node would have got.
//
// Nothing here changes the machine or touches a mount: mounts are asked by package
// probe in a process of their own. The hooks prolog and epilog and the command
// check call it.
package gate
