// By which kernels a device computes attention over whole sequences, its own or its library's:
// times both, and makes a queue use those that are asked for or that a profile's times choose.
// Leaves out how times are written down (sim/cost/attention_times.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/executor.h"
#include "runtime/ops/kernel_call.h"
#include "sim/cost/attention_times.h"
#include "sim/program/op.h"

namespace foretrain {

using AttentionPass = std::variant<FtAttentionForward, FtAttentionBackward>;

// The pass that a call is; nothing where it is another.
std::optional<AttentionPass> AttentionPassOf(const KernelCall& call);

// That of an op, without its tensors; nothing where it is another.
std::optional<AttentionPass> AttentionPassOf(const Op& op);

// What is kept for passes like it; null: nothing.
const AttentionTime* FindAttentionTime(const AttentionTimes& times, const AttentionPass& pass);

// Why the device's own kernels compute all attention although others are asked for, as a sentence:
// there is no library, or another version than that of the profile's times. Empty where the library
// is used, or nothing asks for it.
std::string WhyLibraryNotUsed(const FtDeviceApi& api, AttentionChoice choice,
                              const AttentionTimes& times);

// From here on `queue` computes passes like those of `passes` as `choice` says; by kAuto those that
// the library was faster with, and that it takes. Compiles, which may take seconds a pass.
//
// Errors: the device's; kUnsupported, the library is asked for and there is none, or it does not
// compute one of `passes`.
Result<void> UseAttentionKernels(const FtDeviceApi& api, FtQueue* queue, AttentionChoice choice,
                                 const AttentionTimes& times,
                                 std::span<const AttentionPass> passes);

struct TimeAttentionOptions {
  int device = 0;
  int rounds = 5;              // in which both take turns; a time is the median
  int launches = 2;            // of a turn
  std::function<bool()> stop;  // asked before each pass; may be null
};

// How long each of `passes`, which differ, takes by the device's own kernels and by the library's,
// its backward in a fixed order; those that the library does not compute are left out. By events of
// the device, of tensors whose numbers are all alike. None from a device that has no such library.
//
// Errors: the device's; kResourceExhausted, no memory for the tensors; kAborted when stopped.
Result<AttentionTimes> TimeAttention(const FtDeviceApi& api, std::span<const AttentionPass> passes,
                                     const TimeAttentionOptions& options);

}  // namespace foretrain
