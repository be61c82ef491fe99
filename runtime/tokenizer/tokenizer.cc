#include "runtime/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"
#include "runtime/tokenizer/added_tokens.h"
#include "runtime/tokenizer/byte_pairs.h"
#include "runtime/tokenizer/steps.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{128} << 20;
constexpr std::int64_t kMaxValues = std::int64_t{1} << 23;
constexpr std::int64_t kMaxId = std::int64_t{1} << 30;

// Tokens that end a document, in the order in which they are looked for.
constexpr std::array<const char*, 8> kEnds = {"<|endoftext|>",
                                              "<|end_of_text|>",
                                              "<｜end▁of▁sentence｜>",
                                              "</s>",
                                              "<eos>",
                                              "<|return|>",
                                              "[SEP]",
                                              "<end>"};

tl::unexpected<Error> Damaged(std::string_view source, std::string_view what) {
  return Fail(ErrorCode::kCorruptInput, fmt::format("{}: {}", source, what));
}

bool Flag(const JsonValue& value, std::string_view name) {
  const JsonValue* const found = value.Find(name);
  return found != nullptr && found->kind() == JsonValue::Kind::kBool && found->AsBool();
}
std::string TextIn(const JsonValue& value, std::string_view name) {
  const JsonValue* const found = value.Find(name);
  return found != nullptr && found->kind() == JsonValue::Kind::kString ? found->AsString() : "";
}
std::optional<std::int32_t> IdIn(const JsonValue* value) {
  if (value == nullptr || value->kind() != JsonValue::Kind::kInteger) return std::nullopt;
  if (value->AsInteger() < 0 || value->AsInteger() > kMaxId) return std::nullopt;
  return static_cast<std::int32_t>(value->AsInteger());
}

Result<std::vector<AddedToken>> AddedIn(const JsonValue& root, std::string_view source) {
  std::vector<AddedToken> tokens;
  const JsonValue* const all = root.Find("added_tokens");
  if (all == nullptr || all->is_null()) return tokens;
  for (const JsonValue& value : all->items()) {
    const auto id = IdIn(value.Find("id"));
    AddedToken token{.text = TextIn(value, "content"),
                     .id = id.value_or(0),
                     .single_word = Flag(value, "single_word"),
                     .takes_left = Flag(value, "lstrip"),
                     .takes_right = Flag(value, "rstrip"),
                     .normalized = Flag(value, "normalized"),
                     .special = Flag(value, "special")};
    if (!id || token.text.empty()) return Damaged(source, "added_tokens: one has no id or content");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// A merge is "left right", or ["left", "right"] where a token may have a space.
Result<std::pair<std::string, std::string>> MergeIn(const JsonValue& value,
                                                    std::string_view source) {
  if (value.kind() == JsonValue::Kind::kString) {
    const std::string& text = value.AsString();
    const std::size_t space = text.find(' ', 1);
    if (space != std::string::npos) return std::pair(text.substr(0, space), text.substr(space + 1));
  } else if (value.items().size() == 2 && value.items()[0].kind() == JsonValue::Kind::kString &&
             value.items()[1].kind() == JsonValue::Kind::kString) {
    return std::pair(value.items()[0].AsString(), value.items()[1].AsString());
  }
  return Damaged(source, "merges: one is no pair of tokens");
}

// With bytes, keys are written in GPT-2's letters. A key that is not, such as a special token, is
// no piece of text and stays out.
Result<BytePairData> ModelIn(const JsonValue& root, bool bytes, std::string_view source) {
  const JsonValue* const model = root.Find("model");
  if (model == nullptr || model->kind() != JsonValue::Kind::kObject) {
    return Damaged(source, "has no model; give a tokenizer.json");
  }
  const std::string type = TextIn(*model, "type");
  if (!type.empty() && type != "BPE") {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: model of type \"{}\": only byte-pair encodings (BPE) are known to "
                            "this foretrain",
                            source, Printable(type)));
  }
  for (const char* const name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (TextIn(*model, name).empty()) continue;
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: model: {} is not known to this foretrain", source, name));
  }
  const JsonValue* const vocab = model->Find("vocab");
  const JsonValue* const merges = model->Find("merges");
  if (vocab == nullptr || vocab->kind() != JsonValue::Kind::kObject || merges == nullptr ||
      merges->kind() != JsonValue::Kind::kArray) {
    return Damaged(source, "model: has no vocab or no merges");
  }
  BytePairData data{.unknown = TextIn(*model, "unk_token"),
                    .bytes = bytes,
                    .byte_fallback = Flag(*model, "byte_fallback"),
                    .fuse_unknown = Flag(*model, "fuse_unk"),
                    .whole_first = Flag(*model, "ignore_merges")};
  std::string raw;
  data.vocab.reserve(vocab->names().size());
  for (std::size_t i = 0; i < vocab->names().size(); ++i) {
    const auto id = IdIn(&vocab->items()[i]);
    if (!id) return Damaged(source, "vocab: \"" + Printable(vocab->names()[i]) + "\" has no id");
    if (!bytes) {
      data.vocab.emplace(vocab->names()[i], *id);
    } else if (BytesOfText(vocab->names()[i], raw)) {
      data.vocab.emplace(raw, *id);
    }
  }
  data.merges.reserve(merges->items().size());
  for (const JsonValue& value : merges->items()) {
    FT_ASSIGN(auto merge, MergeIn(value, source));
    if (bytes && (!BytesOfText(merge.first, raw) || (merge.first = raw, false) ||
                  !BytesOfText(merge.second, raw) || (merge.second = raw, false))) {
      return Damaged(source, "merges: one is not of bytes");
    }
    data.merges.push_back(std::move(merge));
  }
  return data;
}

// Ids that a template puts before and behind a text.
struct Around {
  std::vector<std::int32_t> before{}, behind{};
};

Result<void> AddAround(const JsonValue& value, std::string_view source, Around& around) {
  const std::string type = TextIn(value, "type");
  if (type == "ByteLevel") return {};  // changes offsets alone
  if (type == "Sequence") {
    const JsonValue* const inner = value.Find("processors");
    if (inner == nullptr) return Damaged(source, "post_processor: Sequence without processors");
    for (const JsonValue& one : inner->items()) FT_TRY(AddAround(one, source, around));
    return {};
  }
  const JsonValue* const single = value.Find("single");
  const JsonValue* const tokens = value.Find("special_tokens");
  if (type != "TemplateProcessing" || single == nullptr || tokens == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: post_processor of type \"{}\" is not known to this foretrain",
                            source, Printable(type)));
  }
  bool behind = false;
  for (const JsonValue& piece : single->items()) {
    const JsonValue* const special = piece.Find("SpecialToken");
    if (special == nullptr) {
      behind = true;
      continue;
    }
    const JsonValue* const known = tokens->Find(TextIn(*special, "id"));
    const JsonValue* const ids = known != nullptr ? known->Find("ids") : nullptr;
    if (ids == nullptr) return Damaged(source, "post_processor: a special token has no ids");
    for (const JsonValue& id : ids->items()) {
      const auto number = IdIn(&id);
      if (!number) return Damaged(source, "post_processor: a special token has no ids");
      (behind ? around.behind : around.before).push_back(*number);
    }
  }
  return {};
}

// How decoding turns SentencePiece's spaces back; ByteLevel needs nothing.
struct DecodeRule {
  std::vector<std::pair<std::string, std::string>> replaced{};
  bool strips_first_space = false;
  bool joins_bytes = false;  // tokens <0x00> to <0xFF> become bytes
};

void AddDecodeRule(const JsonValue& value, DecodeRule& rule) {
  const std::string type = TextIn(value, "type");
  if (type == "Sequence") {
    if (const JsonValue* const inner = value.Find("decoders"); inner != nullptr) {
      for (const JsonValue& one : inner->items()) AddDecodeRule(one, rule);
    }
  } else if (type == "Replace") {
    const JsonValue* const pattern = value.Find("pattern");
    const std::string from = pattern != nullptr ? TextIn(*pattern, "String") : "";
    if (!from.empty()) rule.replaced.emplace_back(from, TextIn(value, "content"));
  } else if (type == "Metaspace") {
    rule.replaced.emplace_back(TextIn(value, "replacement"), " ");
    rule.strips_first_space = TextIn(value, "prepend_scheme") != "never";
  } else if (type == "ByteFallback") {
    rule.joins_bytes = true;
  } else if (type == "Strip") {
    const JsonValue* const start = value.Find("start");
    rule.strips_first_space = start != nullptr && start->kind() == JsonValue::Kind::kInteger &&
                              start->AsInteger() > 0 && TextIn(value, "content") == " ";
  }
}

// The byte that "<0x0A>" stands for; -1 for another token.
int ByteOf(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    byte = 16 * byte + digit;
  }
  return byte;
}

// Replaces what is no UTF-8 by U+FFFD, so that patterns can match.
std::string Repaired(std::string_view text) {
  std::string good;
  while (!text.empty()) {
    const std::size_t size = Utf8Bytes(text);
    if (size == 0) {
      good += "\xef\xbf\xbd";
    } else {
      good.append(text.substr(0, size));
    }
    text.remove_prefix(std::max<std::size_t>(1, size));
  }
  return good;
}
bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = Utf8Bytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace

struct Tokenizer::Parts {
  std::vector<Normalizer> normalizers;
  Splitters splitters;
  BytePairs pairs;
  AddedTokens plain, normalized;  // found before and after normalization
  Around around;
  DecodeRule decode;
  std::map<std::int32_t, std::string> texts{};  // of all ids, in raw bytes
  std::map<std::int32_t, AddedToken> added{};   // by id
  std::map<std::string, std::int32_t> added_by_text{};

  // Text without plain added tokens. `first`: it begins the whole input.
  void EncodeBetween(std::string_view text, bool first, std::vector<std::int32_t>& ids) const {
    std::string changed(text);
    for (const Normalizer& normalizer : normalizers) normalizer(changed);
    normalized.Cut(changed, [&](std::string_view part, const AddedToken* token) {
      if (token != nullptr) return ids.push_back(token->id);
      const bool begins = first && part.data() == changed.data();
      RunSplitters(splitters.steps, 0, part, begins,
                   [&](std::string_view piece, bool) { pairs.Encode(piece, ids); });
    });
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::Open(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  const std::string file = info.kind == FileKind::kDirectory ? path + "/tokenizer.json" : path;
  FT_ASSIGN(const std::string text, ReadFile(files, file, kMaxBytes));
  return FromJson(text, file);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view text,
                                                       std::string_view source) {
  FT_ASSIGN(const JsonValue root,
            ParseJson(text, source, {.max_bytes = kMaxBytes, .max_values = kMaxValues}));
  if (root.kind() != JsonValue::Kind::kObject) {
    return Damaged(source, "is no JSON object; give a tokenizer.json");
  }
  FT_ASSIGN(std::vector<Normalizer> normalizers, NormalizersOf(root.Find("normalizer"), source));
  FT_ASSIGN(Splitters splitters, SplittersOf(root.Find("pre_tokenizer"), source));
  FT_ASSIGN(BytePairData data, ModelIn(root, splitters.bytes, source));
  FT_ASSIGN(BytePairs pairs, BytePairs::Make(std::move(data), source));
  FT_ASSIGN(const std::vector<AddedToken> added, AddedIn(root, source));
  Around around;
  if (const JsonValue* const value = root.Find("post_processor");
      value != nullptr && !value->is_null()) {
    FT_TRY(AddAround(*value, source, around));
  }
  DecodeRule decode;
  if (const JsonValue* const value = root.Find("decoder"); value != nullptr) {
    AddDecodeRule(*value, decode);
  }
  std::vector<AddedToken> plain, normalized;
  for (const AddedToken& token : added) (token.normalized ? normalized : plain).push_back(token);
  for (AddedToken& token : normalized) {
    for (const Normalizer& normalizer : normalizers) normalizer(token.text);
  }
  auto parts = std::make_unique<Parts>(Parts{.normalizers = std::move(normalizers),
                                             .splitters = std::move(splitters),
                                             .pairs = std::move(pairs),
                                             .plain = AddedTokens(std::move(plain)),
                                             .normalized = AddedTokens(std::move(normalized)),
                                             .around = std::move(around),
                                             .decode = std::move(decode)});
  for (const auto& [token, id] : parts->pairs.vocab()) parts->texts.emplace(id, token);
  for (const AddedToken& token : added) {
    parts->texts.insert_or_assign(token.id, token.text);
    parts->added.insert_or_assign(token.id, token);
    parts->added_by_text.insert_or_assign(token.text, token.id);
  }
  if (parts->texts.empty()) return Damaged(source, "has no tokens");
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

std::vector<std::int32_t> Tokenizer::Encode(std::string_view text, bool adds_special) const {
  std::vector<std::int32_t> ids;
  if (adds_special) ids = parts_->around.before;
  std::string repaired;
  if (!IsUtf8(text)) text = repaired = Repaired(text);
  parts_->plain.Cut(text, [&](std::string_view part, const AddedToken* token) {
    if (token != nullptr) return ids.push_back(token->id);
    parts_->EncodeBetween(part, part.data() == text.data(), ids);
  });
  if (adds_special) {
    ids.insert(ids.end(), parts_->around.behind.begin(), parts_->around.behind.end());
  }
  return ids;
}

// Bytes of characters may be spread over tokens, so UTF-8 is repaired at the end.
std::string Tokenizer::Decode(std::span<const std::int32_t> ids, bool skips_special) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const auto token = parts_->texts.find(id);
    if (token == parts_->texts.end()) continue;
    const auto added = parts_->added.find(id);
    if (added != parts_->added.end()) {
      if (!skips_special || !added->second.special) text += added->second.text;
      continue;
    }
    if (parts_->splitters.bytes) {
      text += token->second;
      continue;
    }
    const int byte = parts_->decode.joins_bytes ? ByteOf(token->second) : -1;
    if (byte >= 0) {
      text += static_cast<char>(byte);
      continue;
    }
    std::string shown = token->second;
    for (const auto& [from, to] : parts_->decode.replaced) {
      for (std::size_t at = 0; (at = shown.find(from, at)) != std::string::npos; at += to.size()) {
        shown.replace(at, from.size(), to);
      }
    }
    text += shown;
  }
  if (parts_->decode.strips_first_space && text.starts_with(' ')) text.erase(0, 1);
  return IsUtf8(text) ? text : Repaired(text);
}

std::int32_t Tokenizer::vocab_size() const { return parts_->texts.rbegin()->first + 1; }

std::int32_t Tokenizer::IdOf(const std::string& token) const {
  const auto added = parts_->added_by_text.find(token);
  if (added != parts_->added_by_text.end()) return added->second;
  std::string raw;
  if (!parts_->splitters.bytes) return parts_->pairs.IdOf(token);
  return BytesOfText(token, raw) ? parts_->pairs.IdOf(raw) : -1;
}

std::int32_t Tokenizer::EndOfText() const {
  for (const char* const name : kEnds) {
    if (const std::int32_t id = IdOf(name); id >= 0) return id;
  }
  return -1;
}

}  // namespace foretrain
