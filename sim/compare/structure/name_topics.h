// Tells the topics of ops and kernels by their names, from the table name_topics.csv.
#pragma once

#include <cstdint>
#include <string_view>

namespace foretrain {

struct NameFacts {
  std::uint64_t topics = 0;  // a bit for each topic that the name speaks of
  std::uint64_t hints = 0;   // likewise for topics that it may be about: "mean" is a part of norms
  bool follows = false;      // a kernel that finishes the work of the one before it
  bool says_backward = false;
  bool is_frame = false;  // an operator that only runs others, which may belong to several ops
};

// Facts of the name of a forecast's op, such as "norm1" or "attention.core".
NameFacts FactsOfOp(std::string_view name);
// As above for the name of a kernel, or of an operator of the host.
NameFacts FactsOfKernel(std::string_view name);

}  // namespace foretrain
