#include "runtime/tokenizer/steps.h"

#include <fmt/format.h>

#if FORETRAIN_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "runtime/tokenizer/pattern.h"

namespace foretrain {
namespace {

// GPT-2's pattern, which ByteLevel uses on its own (Radford et al. 2019, encoder.py).
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

tl::unexpected<Error> Unknown(std::string_view source, std::string_view field,
                              const std::string& kind) {
  return Fail(ErrorCode::kUnsupported,
              fmt::format("{}: {} of type \"{}\" is not known to this foretrain", source, field,
                          Printable(kind)));
}

std::string TextIn(const JsonValue& value, std::string_view name) {
  const JsonValue* const found = value.Find(name);
  return found != nullptr && found->kind() == JsonValue::Kind::kString ? found->AsString() : "";
}
bool IsOn(const JsonValue& value, std::string_view name, bool otherwise) {
  const JsonValue* const found = value.Find(name);
  return found != nullptr && found->kind() == JsonValue::Kind::kBool ? found->AsBool() : otherwise;
}

// {"String": "..."} or {"Regex": "..."}.
Result<Pattern> PatternIn(const JsonValue& value, std::string_view source) {
  const JsonValue* const pattern = value.Find("pattern");
  if (pattern != nullptr && pattern->kind() == JsonValue::Kind::kObject) {
    if (const std::string text = TextIn(*pattern, "String"); !text.empty()) {
      return Pattern::Literal(text, source);
    }
    if (const std::string text = TextIn(*pattern, "Regex"); !text.empty()) {
      return Pattern::Make(text, source);
    }
  }
  return Fail(ErrorCode::kCorruptInput,
              fmt::format("{}: pattern: give {{\"String\": ...}} or {{\"Regex\": ...}}", source));
}

void ReplaceAll(const Pattern& pattern, const std::string& with, std::string& text) {
  std::string made;
  std::size_t done = 0;
  while (const auto found = pattern.Find(text, done)) {
    made.append(text, done, found->begin - done).append(with);
    done = found->end;
  }
  if (done == 0) return;
  text = made.append(text, done);
}

#if FORETRAIN_HAVE_UTF8PROC
// The library gives null only without memory, or for broken UTF-8, which is not let in.
Normalizer UnicodeForm(int options) {
  return [options](std::string& text) {
    utf8proc_uint8_t* made = nullptr;
    const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const utf8proc_ssize_t size =
        utf8proc_map(bytes, static_cast<utf8proc_ssize_t>(text.size()), &made,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
    if (size >= 0) text.assign(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
    std::free(made);
  };
}
std::optional<Normalizer> UnicodeNormalizer(const std::string& type) {
  if (type == "NFC") return UnicodeForm(UTF8PROC_COMPOSE);
  if (type == "NFD") return UnicodeForm(UTF8PROC_DECOMPOSE);
  if (type == "NFKC") return UnicodeForm(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (type == "NFKD") return UnicodeForm(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  return std::nullopt;
}
#else
std::optional<Normalizer> UnicodeNormalizer(const std::string&) { return std::nullopt; }
#endif

Result<void> AddNormalizers(const JsonValue& value, std::string_view source,
                            std::vector<Normalizer>& steps) {
  const std::string type = TextIn(value, "type");
  if (type == "Sequence") {
    const JsonValue* const inner = value.Find("normalizers");
    if (inner == nullptr) return Unknown(source, "normalizer", "Sequence without normalizers");
    for (const JsonValue& one : inner->items()) FT_TRY(AddNormalizers(one, source, steps));
    return {};
  }
  if (type == "Prepend") {
    steps.emplace_back([with = TextIn(value, "prepend")](std::string& text) {
      if (!text.empty()) text.insert(0, with);
    });
    return {};
  }
  if (type == "Replace") {
    FT_ASSIGN(Pattern pattern, PatternIn(value, source));
    steps.emplace_back([pattern = std::move(pattern), with = TextIn(value, "content")](
                           std::string& text) { ReplaceAll(pattern, with, text); });
    return {};
  }
  if (auto form = UnicodeNormalizer(type)) {
    steps.push_back(*std::move(form));
    return {};
  }
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: normalizer {}: this build has no utf8proc: install "
                            "libutf8proc-dev and build again",
                            source, type));
  }
  return Unknown(source, "normalizer", type);
}

// Whether a match becomes a piece of its own or joins a neighbour. With `invert` the roles of
// matches and of what lies between them are exchanged.
enum class Behaviour { kRemoved, kIsolated, kWithPrevious, kWithNext, kContiguous };

std::optional<Behaviour> BehaviourOf(const std::string& name) {
  if (name == "Removed") return Behaviour::kRemoved;
  if (name == "Isolated") return Behaviour::kIsolated;
  if (name == "MergedWithPrevious") return Behaviour::kWithPrevious;
  if (name == "MergedWithNext") return Behaviour::kWithNext;
  if (name == "Contiguous") return Behaviour::kContiguous;
  return std::nullopt;
}

struct Part {
  std::size_t begin, end;
  bool match;
};

// Parts that are neither matches nor between them do not occur, so that they cover the text.
std::vector<Part> PartsOf(const Pattern& pattern, bool invert, std::string_view text) {
  std::vector<Part> parts;
  std::size_t done = 0;
  while (const auto found = pattern.Find(text, done)) {
    if (found->begin > done) parts.push_back({done, found->begin, invert});
    parts.push_back({found->begin, found->end, !invert});
    done = found->end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), invert});
  return parts;
}

// Joins parts as the behaviour says; removed ones are left out.
std::vector<Part> Joined(const std::vector<Part>& parts, Behaviour behaviour) {
  std::vector<Part> joined;
  bool was_match = false;
  for (const Part& part : parts) {
    const bool begins = joined.empty();
    bool joins = false;
    switch (behaviour) {
      case Behaviour::kRemoved:
        if (part.match) continue;
        break;
      case Behaviour::kIsolated:
        break;
      case Behaviour::kWithPrevious:
        joins = part.match && !was_match;
        break;
      case Behaviour::kWithNext:
        joins = !part.match && was_match;
        break;
      case Behaviour::kContiguous:
        joins = part.match == was_match;
        break;
    }
    if (joins && !begins) {
      joined.back().end = part.end;
    } else {
      joined.push_back(part);
    }
    was_match = part.match;
  }
  return joined;
}

Splitter SplitBy(Pattern pattern, Behaviour behaviour, bool invert) {
  return [pattern = std::move(pattern), behaviour, invert](std::string_view text, bool first,
                                                           const EmitPiece& emit) {
    for (const Part& part : Joined(PartsOf(pattern, invert, text), behaviour)) {
      emit(text.substr(part.begin, part.end - part.begin), first && part.begin == 0);
    }
  };
}

Result<Splitter> SplitBy(const std::string& expression, Behaviour behaviour, bool invert,
                         std::string_view source) {
  FT_ASSIGN(Pattern pattern, Pattern::Make(expression, source));
  return SplitBy(std::move(pattern), behaviour, invert);
}

Splitter WithPrefixSpace() {
  return [](std::string_view text, bool first, const EmitPiece& emit) {
    if (text.empty() || text.front() == ' ') return emit(text, first);
    emit(" " + std::string(text), first);
  };
}

// SentencePiece's spaces (Kudo and Richardson 2018): each becomes `replacement`, and a text that
// begins with none gets one in front.
Result<void> AddMetaspace(const JsonValue& value, std::string_view source, Splitters& splitters) {
  const std::string replacement = TextIn(value, "replacement");
  std::string scheme = TextIn(value, "prepend_scheme");
  if (scheme.empty()) scheme = IsOn(value, "add_prefix_space", true) ? "always" : "never";
  FT_ASSIGN(Pattern space, Pattern::Literal(" ", source));
  splitters.steps.emplace_back([space = std::move(space), replacement, scheme](
                                   std::string_view text, bool first, const EmitPiece& emit) {
    std::string made(text);
    ReplaceAll(space, replacement, made);
    const bool prepends = scheme == "always" || (scheme == "first" && first);
    if (prepends && !made.starts_with(replacement)) made.insert(0, replacement);
    emit(made, first);
  });
  if (!IsOn(value, "split", true)) return {};
  FT_ASSIGN(Pattern pattern, Pattern::Literal(replacement, source));
  splitters.steps.push_back(SplitBy(std::move(pattern), Behaviour::kWithNext, false));
  return {};
}

Result<void> AddSplit(const JsonValue& value, std::string_view source, Splitters& splitters) {
  FT_ASSIGN(Pattern pattern, PatternIn(value, source));
  const auto behaviour = BehaviourOf(TextIn(value, "behavior"));
  if (!behaviour) return Unknown(source, "pre_tokenizer's behavior", TextIn(value, "behavior"));
  splitters.steps.push_back(SplitBy(std::move(pattern), *behaviour, IsOn(value, "invert", false)));
  return {};
}

// Pieces become bytes at the end, so nothing may follow.
Result<void> AddByteLevel(const JsonValue& value, std::string_view source, Splitters& splitters) {
  if (IsOn(value, "add_prefix_space", true)) splitters.steps.push_back(WithPrefixSpace());
  if (IsOn(value, "use_regex", true)) {
    FT_ASSIGN(Splitter words, SplitBy(kGpt2, Behaviour::kIsolated, false, source));
    splitters.steps.push_back(std::move(words));
  }
  splitters.bytes = true;
  return {};
}

Result<void> AddSplitters(const JsonValue& value, std::string_view source, Splitters& splitters) {
  const std::string type = TextIn(value, "type");
  if (splitters.bytes) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: pre_tokenizer: {} behind ByteLevel is not known to this foretrain",
                            source, Printable(type)));
  }
  if (type == "Sequence") {
    const JsonValue* const inner = value.Find("pretokenizers");
    if (inner == nullptr) return Unknown(source, "pre_tokenizer", "Sequence without pretokenizers");
    for (const JsonValue& one : inner->items()) FT_TRY(AddSplitters(one, source, splitters));
    return {};
  }
  if (type == "ByteLevel") return AddByteLevel(value, source, splitters);
  if (type == "Metaspace") return AddMetaspace(value, source, splitters);
  if (type == "Split") return AddSplit(value, source, splitters);
  const auto add = [&](const std::string& expression, Behaviour behaviour,
                       bool invert) -> Result<void> {
    FT_ASSIGN(Splitter step, SplitBy(expression, behaviour, invert, source));
    splitters.steps.push_back(std::move(step));
    return {};
  };
  if (type == "Digits") {
    const bool single = IsOn(value, "individual_digits", false);
    return add(single ? R"(\p{N})" : R"(\p{N}+)", Behaviour::kIsolated, false);
  }
  if (type == "Whitespace") return add(R"(\w+|[^\w\s]+)", Behaviour::kRemoved, true);
  if (type == "WhitespaceSplit") return add(R"(\s)", Behaviour::kRemoved, false);
  if (type == "Punctuation") {
    const auto behaviour = BehaviourOf(TextIn(value, "behavior"));
    return add(R"([!-/:-@\[-`{-~]|\p{P})", behaviour.value_or(Behaviour::kIsolated), false);
  }
  return Unknown(source, "pre_tokenizer", type);
}

// GPT-2's printable stand-ins: bytes that print stand for themselves, the others for 256 and on.
struct ByteLetters {
  std::array<std::string, 256> letter;
  std::unordered_map<std::string, char> byte;

  ByteLetters() {
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const int code = prints ? b : next++;
      std::string text;
      if (code < 0x80) {
        text = static_cast<char>(code);
      } else {
        text = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
      }
      byte.emplace(text, static_cast<char>(b));
      letter[static_cast<std::size_t>(b)] = std::move(text);
    }
  }
};
const ByteLetters& TheLetters() {
  static const ByteLetters letters;
  return letters;
}

}  // namespace

Result<std::vector<Normalizer>> NormalizersOf(const JsonValue* value, std::string_view source) {
  std::vector<Normalizer> steps;
  if (value == nullptr || value->is_null()) return steps;
  FT_TRY(AddNormalizers(*value, source, steps));
  return steps;
}

Result<Splitters> SplittersOf(const JsonValue* value, std::string_view source) {
  Splitters splitters;
  if (value == nullptr || value->is_null()) return splitters;
  FT_TRY(AddSplitters(*value, source, splitters));
  return splitters;
}

void RunSplitters(const std::vector<Splitter>& steps, std::size_t step, std::string_view text,
                  bool first, const EmitPiece& emit) {
  if (text.empty()) return;
  if (step == steps.size()) return emit(text, first);
  steps[step](text, first, [&](std::string_view piece, bool is_first) {
    RunSplitters(steps, step + 1, piece, is_first, emit);
  });
}

std::string TextOfBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += TheLetters().letter[static_cast<unsigned char>(c)];
  return text;
}

bool BytesOfText(std::string_view text, std::string& bytes) {
  bytes.clear();
  while (!text.empty()) {
    const std::size_t size = Utf8Bytes(text);
    const auto found = TheLetters().byte.find(std::string(text.substr(0, size)));
    if (size == 0 || found == TheLetters().byte.end()) return false;
    bytes += found->second;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace foretrain
