// The topics that names of ops and kernels speak of. name_topics.csv lists them.
#pragma once

#include <cstdint>
#include <string_view>

namespace foretrain {

// The topic "follows": a kernel that finishes the work of the one before it.
inline constexpr std::uint64_t kFollows = std::uint64_t{1} << 63;
// The topic "backward": work of a backward pass, as its name says.
inline constexpr std::uint64_t kSaysBackward = std::uint64_t{1} << 62;

// A bit for each topic of a forecast op's name, such as "norm1" or "attention.core".
std::uint64_t TopicsOfOp(std::string_view name);
// As above for the name of a kernel, or of an operator of the host.
std::uint64_t TopicsOfKernel(std::string_view name);

}  // namespace foretrain
