// Byte-pair encoding (Sennrich et al. 2016) of one piece of text: symbols are merged pair by pair,
// the pair that was learned first before all others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace foretrain {

// Vocabulary and merges as tokenizer.json has them, in raw bytes.
struct BytePairData {
  std::unordered_map<std::string, std::int32_t> vocab{};  // every id at least 0
  std::vector<std::pair<std::string, std::string>> merges{};
  std::string unknown{};       // token for symbols outside the vocabulary; empty: they are left out
  bool bytes = false;          // a symbol is a byte; else a character of UTF-8
  bool byte_fallback = false;  // characters outside become the tokens <0x00> to <0xFF>
  bool fuse_unknown = false;   // a row of unknown symbols becomes one token
  bool whole_first = false;    // a piece that is a token itself is not merged
};

class BytePairs {
 public:
  // Errors: kCorruptInput, naming the merge or token: a merge of or into no token, an unknown token
  // that is none, or fewer than 256 byte tokens with byte_fallback.
  static Result<BytePairs> Make(BytePairData data, std::string_view source);

  // Appends the ids of the piece. O(n log n) for a piece of n symbols. Safe from any thread.
  void Encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

  // The id of a token; -1 if there is none.
  std::int32_t IdOf(const std::string& token) const;
  const std::unordered_map<std::string, std::int32_t>& vocab() const { return data_.vocab; }

 private:
  struct Merge {
    std::int32_t rank = 0;  // the lower is merged first
    std::int32_t id = 0;    // of both together
  };
  struct Symbol {
    std::int32_t id = 0;
    std::int32_t before = -1, behind = -1;  // neighbours, by index
  };

  explicit BytePairs(BytePairData data) : data_(std::move(data)) {}
  void AddSymbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  const Merge* Find(std::int32_t left, std::int32_t right) const;
  void MergeAll(std::vector<Symbol>& symbols) const;

  BytePairData data_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by both ids
  std::vector<std::int32_t> byte_ids_;               // of each byte; -1: none
  std::int32_t unknown_ = -1;
};

}  // namespace foretrain
