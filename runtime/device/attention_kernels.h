// Chooses the kernels for attention over whole sequences, the device's own or its library's: times
// both, and sets up queues as requested or by a profile's times. The times' format is in
// sim/cost/kernels/attention_times.h.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/executor/executor.h"
#include "runtime/ops/kernel_call.h"
#include "sim/cost/kernels/attention_times.h"
#include "sim/program/ir/op.h"

namespace foretrain {

using AttentionPass = std::variant<FtAttentionForward, FtAttentionBackward>;

// The pass of a call; `nullopt` if the call is no attention pass.
std::optional<AttentionPass> AttentionPassOf(const KernelCall& call);

// The pass of an op, without its tensors; `nullopt` if the op is no attention pass.
std::optional<AttentionPass> AttentionPassOf(const Op& op);

// The stored times for passes like it; null if there are none.
const AttentionTime* FindAttentionTime(const AttentionTimes& times, const AttentionPass& pass);

// Why the device's own kernels compute all attention although its library may: there is none, or an
// older version. Empty if the library is used, if `choice` leaves it out, or if the device has no
// use for one.
std::string WhyLibraryNotUsed(const FtDeviceApi& api, AttentionChoice choice);

// From now on `queue` computes passes like `passes` as `choice` says. kAuto uses the kernels that
// the times of the library's version show to be faster; for passes without times, the library
// forward and the own kernels backward. May compile for seconds a pass.
//
// Errors: the device's; kUnsupported, the library was requested and is missing or does not compute
// one of `passes`.
Result<void> UseAttentionKernels(const FtDeviceApi& api, FtQueue* queue, AttentionChoice choice,
                                 const AttentionTimes& times,
                                 std::span<const AttentionPass> passes);

struct TimeAttentionOptions {
  int device = 0;
  int rounds = 5;    // alternating rounds; a time is their median
  int launches = 2;  // in each round, fewer if they take long
  // Called before each pass; may be null. True: the time for this is spent, and passes are left
  // out.
  std::function<bool()> is_over{};
  std::function<bool()> stop{};  // called before each pass; may be null
};

// Times each of `passes`, which must differ, with the device's kernels and with the library's,
// whose backward runs in a fixed order. Passes that the library does not compute are left out.
// Measured by device events, with tensors of equal numbers. Empty if the device has no such
// library.
//
// Errors: the device's; kResourceExhausted, no memory for the tensors; kAborted if stopped.
Result<AttentionTimes> TimeAttention(const FtDeviceApi& api, std::span<const AttentionPass> passes,
                                     const TimeAttentionOptions& options);

}  // namespace foretrain
