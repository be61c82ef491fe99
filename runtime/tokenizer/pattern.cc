#include "runtime/tokenizer/pattern.h"

#if FORETRAIN_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#include <array>
#include <utility>

#include "base/text.h"

namespace foretrain {

#if FORETRAIN_HAVE_PCRE2

namespace {

// Each thread matches with memory of its own.
pcre2_match_data* MatchData() {
  struct Freed {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  static thread_local const std::unique_ptr<pcre2_match_data, Freed> data(
      pcre2_match_data_create(1, nullptr));
  return data.get();
}

PCRE2_SPTR BytesOf(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Pattern::Code {
  explicit Code(pcre2_code* the_code) : code(the_code) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
};

// Text is checked to be UTF-8 before, so matching does not check it again. Without just-in-time
// compilation matching is slower and gives the same.
Result<Pattern> Pattern::Make(const std::string& expression, std::string_view source) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(BytesOf(expression), expression.size(),
                                         PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return Fail(ErrorCode::kCorruptInput,
                std::string(source) + ": pattern \"" + Printable(expression) + "\": " +
                    reinterpret_cast<const char*>(text.data()) + " at byte " + std::to_string(at));
  }
  static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  return Pattern(std::make_shared<const Code>(code));
}

std::optional<Pattern::Range> Pattern::Find(std::string_view text, std::size_t from) const {
  pcre2_match_data* const data = MatchData();
  const int count = pcre2_match(code_->code, BytesOf(text), text.size(), from,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, nullptr);
  if (count < 0) return std::nullopt;
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data);
  return Range{ends[0], ends[1]};
}

#else

struct Pattern::Code {};

Result<Pattern> Pattern::Make(const std::string&, std::string_view source) {
  return Fail(ErrorCode::kUnsupported, std::string(source) +
                                           ": this build has no PCRE2, which splits text: install "
                                           "libpcre2-dev and build again");
}

std::optional<Pattern::Range> Pattern::Find(std::string_view, std::size_t) const { return {}; }

#endif

Result<Pattern> Pattern::Literal(const std::string& text, std::string_view source) {
  std::string quoted;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       static_cast<unsigned char>(c) >= 0x80;
    if (!plain) quoted += '\\';
    quoted += c;
  }
  return Make(quoted, source);
}

}  // namespace foretrain
