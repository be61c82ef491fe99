// Bytes by memory category, the rows of memory tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "traces/kinds.h"

namespace foretrain {

using CategoryBytes = std::array<std::int64_t, kCategoryCount>;

constexpr std::int64_t& At(CategoryBytes& bytes, Category category) {
  return bytes[static_cast<std::size_t>(category)];
}

constexpr std::int64_t Total(const CategoryBytes& bytes) {
  std::int64_t sum = 0;
  for (const std::int64_t b : bytes) sum += b;
  return sum;
}

}  // namespace foretrain
