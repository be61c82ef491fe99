#include "runtime/tokenizer/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/text.h"

namespace foretrain {
namespace {

std::uint64_t KeyOf(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

Result<BytePairs> BytePairs::Make(BytePairData data, std::string_view source) {
  BytePairs pairs(std::move(data));
  const auto& vocab = pairs.data_.vocab;
  pairs.merges_.reserve(pairs.data_.merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right] : pairs.data_.merges) {
    const auto a = vocab.find(left), b = vocab.find(right), both = vocab.find(left + right);
    if (a == vocab.end() || b == vocab.end() || both == vocab.end()) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: merge {}: \"{}\" and \"{}\" or both together are no token",
                              source, rank, Printable(left), Printable(right)));
    }
    pairs.merges_.insert_or_assign(KeyOf(a->second, b->second), Merge{rank++, both->second});
  }
  pairs.data_.merges = {};
  if (!pairs.data_.unknown.empty()) {
    pairs.unknown_ = pairs.IdOf(pairs.data_.unknown);
    if (pairs.unknown_ < 0) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: unk_token: \"{}\" is no token of the vocabulary", source,
                              Printable(pairs.data_.unknown)));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = pairs.data_.bytes ? std::string(1, static_cast<char>(byte))
                                               : fmt::format("<0x{:02X}>", byte);
    pairs.byte_ids_.push_back(pairs.IdOf(name));
  }
  return pairs;
}

std::int32_t BytePairs::IdOf(const std::string& token) const {
  const auto found = data_.vocab.find(token);
  return found != data_.vocab.end() ? found->second : -1;
}

const BytePairs::Merge* BytePairs::Find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(KeyOf(left, right));
  return found != merges_.end() ? &found->second : nullptr;
}

// Each symbol's neighbours are those in the list.
void BytePairs::AddSymbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  bool was_unknown = false;
  const auto add = [&](std::int32_t id) {
    const auto at = static_cast<std::int32_t>(symbols.size());
    if (at > 0) symbols.back().behind = at;
    symbols.push_back({id, at - 1, -1});
  };
  const auto add_unknown = [&] {
    if (unknown_ >= 0 && !(was_unknown && data_.fuse_unknown)) add(unknown_);
  };
  while (!piece.empty()) {
    const std::size_t size = data_.bytes ? 1 : std::max<std::size_t>(1, Utf8Bytes(piece));
    const std::string_view symbol = piece.substr(0, size);
    piece.remove_prefix(size);
    const std::int32_t id =
        data_.bytes ? byte_ids_[static_cast<unsigned char>(symbol[0])] : IdOf(std::string(symbol));
    const bool by_bytes =
        id < 0 && data_.byte_fallback && std::all_of(symbol.begin(), symbol.end(), [&](char c) {
          return byte_ids_[static_cast<unsigned char>(c)] >= 0;
        });
    if (by_bytes) {
      for (const char c : symbol) add(byte_ids_[static_cast<unsigned char>(c)]);
    } else if (id < 0) {
      add_unknown();
    } else {
      add(id);
    }
    was_unknown = id < 0 && !by_bytes;
  }
}

// A heap of all pairs that may be merged: the lowest rank first, then the leftmost. An entry whose
// symbols have changed since is skipped.
void BytePairs::MergeAll(std::vector<Symbol>& symbols) const {
  struct Candidate {
    std::int32_t rank, left, id;
    std::uint64_t key;
    bool operator<(const Candidate& other) const {
      return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
  };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left) {
    if (left < 0) return;
    const Symbol& symbol = symbols[static_cast<std::size_t>(left)];
    if (symbol.behind < 0) return;
    const std::int32_t right = symbols[static_cast<std::size_t>(symbol.behind)].id;
    const Merge* const merge = Find(symbol.id, right);
    if (merge != nullptr) queue.push({merge->rank, left, merge->id, KeyOf(symbol.id, right)});
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(next.left)];
    if (left.id < 0 || left.behind < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.behind)];
    if (KeyOf(left.id, right.id) != next.key) continue;
    left.id = next.id;
    left.behind = right.behind;
    right.id = -1;
    if (left.behind >= 0) symbols[static_cast<std::size_t>(left.behind)].before = next.left;
    consider(left.before);
    consider(next.left);
  }
}

void BytePairs::Encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (data_.whole_first) {
    if (const std::int32_t whole = IdOf(std::string(piece)); whole >= 0) {
      ids.push_back(whole);
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  AddSymbols(piece, symbols);
  if (symbols.empty()) return;
  MergeAll(symbols);
  for (std::int32_t at = 0; at >= 0; at = symbols[static_cast<std::size_t>(at)].behind) {
    ids.push_back(symbols[static_cast<std::size_t>(at)].id);
  }
}

}  // namespace foretrain
