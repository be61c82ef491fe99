// Ids for ops that no program numbered. They are derived from names, so that the same name has the
// same id in every imported run, and two runs pair call by call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "traces/timeline.h"

namespace foretrain::trace_import {

// Known facts about a call. -1: unknown.
struct CallKey {
  InstructionKind kind = InstructionKind::kBlock;
  Pass pass = Pass::kNone;
  int layer = -1;  // from 0
  int micro_batch = -1;
};

// A name's number is its hash in 18 bits, or the next free number if two names collide. It fills
// the 12 bits of `op` and the upper half of `part`. The n-th call in a step is counted in the
// micro-batch if that is unknown (traces/unknown_coordinates.h), else in the lower half of `part`.
class OpIds {
 public:
  // Returns the id of the next call of `name` in `step` of `rank`, and records its display name.
  OpId Next(const CallKey& key, std::string_view name, int rank, std::int32_t step);

  std::map<OpId, std::string> TakeNames() { return std::move(names_); }

 private:
  std::int64_t NumberOf(std::string_view name);

  struct Place {
    OpId op = kNoOp;
    std::int64_t where = 0;  // rank and step
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      return std::hash<std::int64_t>()(place.op ^ (place.where * 0x9E3779B97F4A7C15LL));
    }
  };

  std::unordered_map<std::string, std::int64_t> numbers_;
  std::unordered_map<std::int64_t, bool> taken_;
  std::unordered_map<Place, int, PlaceHash> calls_;
  std::map<OpId, std::string> names_;
};

}  // namespace foretrain::trace_import
