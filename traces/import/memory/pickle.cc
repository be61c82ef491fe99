#include "traces/import/memory/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/text.h"

namespace foretrain::trace_import {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
constexpr std::int64_t kOpsBetweenCalls = 1 << 16;
// Members of a dict that are looked at. Records have about ten; more would make the search in a
// dict that many others share slow.
constexpr std::size_t kMaxSearched = 256;

// Operations that import or call something. Their names are those of Python's pickletools.
constexpr std::pair<unsigned char, const char*> kCalls[] = {
    {'c', "GLOBAL"},    {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
    {'b', "BUILD"},     {'i', "INST"},          {'o', "OBJ"},
    {0x81, "NEWOBJ"},   {0x92, "NEWOBJ_EX"},    {0x82, "EXT1"},
    {0x83, "EXT2"},     {0x84, "EXT4"},         {'P', "PERSID"},
    {'Q', "BINPERSID"}, {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
};

}  // namespace

std::int64_t PickleTree::Integer(PickleIndex value, std::int64_t otherwise) const {
  const Value& of = values_[value];
  return of.kind == Kind::kInteger || of.kind == Kind::kBool ? of.number : otherwise;
}

std::string_view PickleTree::Text(PickleIndex value) const {
  const Value& of = values_[value];
  if (of.kind != Kind::kText) return {};
  return texts_[static_cast<std::size_t>(of.number)];
}

std::span<const PickleIndex> PickleTree::Items(PickleIndex value) const {
  const Value& of = values_[value];
  if (of.kind != Kind::kList) return {};
  return children_[static_cast<std::size_t>(of.number)];
}

PickleIndex PickleTree::Find(PickleIndex dict, std::string_view name) const {
  const Value& of = values_[dict];
  if (of.kind != Kind::kDict) return kNoValue;
  const std::vector<PickleIndex>& members = children_[static_cast<std::size_t>(of.number)];
  const std::size_t first = members.size() - std::min(members.size(), 2 * kMaxSearched);
  for (std::size_t i = members.size(); i >= first + 2; i -= 2) {
    if (kind(members[i - 2]) == Kind::kText && Text(members[i - 2]) == name) return members[i - 1];
  }
  return kNoValue;
}

// A machine with a stack of values, marks in it, and a memo, as Python's documentation of
// pickletools describes. Every operation costs as much as it has bytes or takes from the stack, so
// reading is linear.
class PickleParser {
 public:
  PickleParser(ByteSource& bytes, std::string_view source, const std::function<bool()>& go_on,
               const PickleLimits& limits)
      : bytes_(bytes), source_(Printable(source, 512)), go_on_(go_on), limits_(limits) {}

  Result<PickleTree> Read() {
    while (true) {
      if (++ops_ % kOpsBetweenCalls == 0 && go_on_ && !go_on_()) {
        return Fail(ErrorCode::kAborted, "the import was stopped");
      }
      at_ = taken_;
      FT_ASSIGN(const std::uint64_t op, Number(1));
      if (op == '.') break;
      FT_TRY(Do(static_cast<unsigned char>(op)));
      if (std::ssize(tree_.values_) > limits_.max_values || text_bytes_ > limits_.max_text_bytes) {
        return Fail(ErrorCode::kResourceExhausted,
                    source_ + ": more than " + std::to_string(limits_.max_values) + " values or " +
                        std::to_string(limits_.max_text_bytes) +
                        " bytes of text; record fewer events (max_entries)");
      }
    }
    if (stack_.size() != 1 || !marks_.empty()) return Bad("does not end with one value");
    tree_.root_ = stack_.back();
    return std::move(tree_);
  }

 private:
  using Kind = PickleTree::Kind;

  tl::unexpected<Error> Bad(std::string_view what) const {
    return Fail(ErrorCode::kCorruptInput,
                source_ + ": byte " + std::to_string(at_) + ": the pickle " + std::string(what));
  }

  // Fills `out`, or fails if the file ends before.
  Result<void> Take(std::span<char> out) {
    while (!out.empty()) {
      if (next_ == filled_) {
        buffer_.resize(kBufferBytes);
        FT_ASSIGN(const std::int64_t read, bytes_.Read(buffer_));
        next_ = 0;
        filled_ = static_cast<std::size_t>(read);
        if (filled_ == 0) {
          at_ = taken_;
          return Bad("ends too early: its writer was stopped, or it was cut off");
        }
      }
      const std::size_t part = std::min(out.size(), filled_ - next_);
      std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(next_), part, out.begin());
      out = out.subspan(part);
      next_ += part;
      taken_ += static_cast<std::int64_t>(part);
    }
    return {};
  }

  // A little-endian number of `size` bytes, at most 8.
  Result<std::uint64_t> Number(std::size_t size) {
    std::array<char, 8> bytes{};
    FT_TRY(Take(std::span(bytes).first(size)));
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < size; ++i) {
      number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return number;
  }

  Result<void> Push(Kind kind, std::int64_t number) {
    tree_.values_.push_back({number, kind});
    stack_.push_back(static_cast<PickleIndex>(tree_.values_.size() - 1));
    return {};
  }

  Result<void> PushText(std::size_t length_bytes) {
    FT_ASSIGN(const std::uint64_t size, Number(length_bytes));
    // Checked before it is allocated; the limit on all texts holds for one.
    if (size > static_cast<std::uint64_t>(limits_.max_text_bytes)) {
      return Bad("has a text of " + std::to_string(size) + " bytes");
    }
    // In pieces, so that a length without its text allocates little.
    std::string text;
    while (text.size() < size) {
      const std::size_t old = text.size();
      text.resize(old + std::min<std::size_t>(size - old, kBufferBytes));
      FT_TRY(Take(std::span(text).subspan(old)));
    }
    text_bytes_ += static_cast<std::int64_t>(size);
    tree_.texts_.push_back(std::move(text));
    return Push(Kind::kText, std::ssize(tree_.texts_) - 1);
  }

  // An integer of up to 8 bytes with a sign, or of 9 whose last is 0: an address.
  Result<void> PushLong() {
    FT_ASSIGN(const std::uint64_t size, Number(1));
    if (size > 9) return Bad("has an integer of " + std::to_string(size) + " bytes");
    if (size == 0) return Push(Kind::kInteger, 0);
    FT_ASSIGN(std::uint64_t number, Number(std::min<std::size_t>(size, 8)));
    if (size == 9) {
      FT_ASSIGN(const std::uint64_t last, Number(1));
      if (last != 0) return Bad("has an integer of more than 64 bits");
    } else if (size < 8 && (number >> (8 * size - 1) & 1) != 0) {
      number |= ~std::uint64_t{0} << (8 * size);
    }
    return Push(Kind::kInteger, static_cast<std::int64_t>(number));
  }

  Result<void> PushFloat() {
    std::array<char, 8> bytes{};
    FT_TRY(Take(bytes));
    return Push(Kind::kNumber, 0);  // no field that is read has one
  }

  Result<void> PushContainer(Kind kind, std::vector<PickleIndex> children = {}) {
    tree_.children_.push_back(std::move(children));
    return Push(kind, std::ssize(tree_.children_) - 1);
  }

  // The values above the last mark, which is removed.
  Result<std::vector<PickleIndex>> AboveMark() {
    if (marks_.empty()) return Bad("takes values above a mark that is not there");
    const auto mark = static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<PickleIndex> values(stack_.begin() + mark, stack_.end());
    stack_.resize(static_cast<std::size_t>(mark));
    return values;
  }

  // The `count` values on top, which must lie above the last mark.
  Result<std::vector<PickleIndex>> Top(std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) return Bad("takes values from an empty stack");
    std::vector<PickleIndex> values(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                    stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  // Adds to the list or dict on top.
  Result<void> AddTo(Kind kind, const std::vector<PickleIndex>& values) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor || tree_.kind(stack_.back()) != kind) {
      return Bad("adds to something that is no list or dict");
    }
    if (kind == Kind::kDict && values.size() % 2 != 0) return Bad("has a name without a value");
    std::vector<PickleIndex>& children =
        tree_.children_[static_cast<std::size_t>(tree_.values_[stack_.back()].number)];
    children.insert(children.end(), values.begin(), values.end());
    return {};
  }

  // Writers number the memo in order, so an index beyond the number of operations is none.
  Result<void> Remember(std::uint64_t index) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) return Bad("remembers a value of an empty stack");
    if (index >= static_cast<std::uint64_t>(ops_)) return Bad("skips numbers of its memo");
    if (memo_.size() <= index) memo_.resize(index + 1, PickleTree::kNoValue);
    memo_[index] = stack_.back();
    if (index >= memo_next_) memo_next_ = index + 1;
    return {};
  }

  Result<void> Recall(std::size_t size) {
    FT_ASSIGN(const std::uint64_t index, Number(size));
    if (index >= memo_.size()) return Bad("recalls a value that it did not remember");
    stack_.push_back(memo_[index]);
    return {};
  }

  Result<void> Do(unsigned char op) {
    switch (op) {
      case 0x80: {  // PROTO
        FT_ASSIGN(const std::uint64_t protocol, Number(1));
        if (protocol < 2 || protocol > 5) {
          return Fail(ErrorCode::kUnsupported, source_ + ": a pickle of protocol " +
                                                   std::to_string(protocol) + "; 2 to 5 are read");
        }
        return {};
      }
      case 0x95: {  // FRAME
        FT_TRY(Number(8));
        return {};
      }
      case 'N':
        return Push(Kind::kNone, 0);
      case 0x88:
      case 0x89:
        return Push(Kind::kBool, op == 0x88 ? 1 : 0);
      case 'J': {  // BININT, with a sign
        FT_ASSIGN(const std::uint64_t number, Number(4));
        return Push(Kind::kInteger,
                    std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(number)));
      }
      case 'K':
      case 'M': {
        FT_ASSIGN(const std::uint64_t number, Number(op == 'K' ? 1 : 2));
        return Push(Kind::kInteger, static_cast<std::int64_t>(number));
      }
      case 0x8a:
        return PushLong();
      case 'G':
        return PushFloat();
      case 0x8c:
        return PushText(1);
      case 'X':
        return PushText(4);
      case 0x8d:
        return PushText(8);
      default:
        return DoWithStack(op);
    }
  }

  Result<void> DoWithStack(unsigned char op) {
    switch (op) {
      case ']':
      case ')':
        return PushContainer(Kind::kList);
      case '}':
        return PushContainer(Kind::kDict);
      case '(':
        marks_.push_back(stack_.size());
        return {};
      case 'a':
      case 's': {  // APPEND, SETITEM
        FT_ASSIGN(const std::vector<PickleIndex> values, Top(op == 'a' ? 1 : 2));
        return AddTo(op == 'a' ? Kind::kList : Kind::kDict, values);
      }
      case 'e':
      case 'u': {  // APPENDS, SETITEMS
        FT_ASSIGN(const std::vector<PickleIndex> values, AboveMark());
        return AddTo(op == 'e' ? Kind::kList : Kind::kDict, values);
      }
      case 't':
      case 'l':
      case 'd': {  // TUPLE, LIST, DICT
        FT_ASSIGN(std::vector<PickleIndex> values, AboveMark());
        if (op == 'd' && values.size() % 2 != 0) return Bad("has a name without a value");
        return PushContainer(op == 'd' ? Kind::kDict : Kind::kList, std::move(values));
      }
      case 0x85:
      case 0x86:
      case 0x87: {
        FT_ASSIGN(std::vector<PickleIndex> values, Top(op - 0x84U));
        return PushContainer(Kind::kList, std::move(values));
      }
      case 0x94:  // MEMOIZE
        return Remember(memo_next_);
      case 'q':
      case 'r': {
        FT_ASSIGN(const std::uint64_t index, Number(op == 'q' ? 1 : 4));
        return Remember(index);
      }
      case 'h':
        return Recall(1);
      case 'j':
        return Recall(4);
      default:
        return Refuse(op);
    }
  }

  Result<void> Refuse(unsigned char op) const {
    for (const auto& [code, name] : kCalls) {
      if (code != op) continue;
      return Fail(ErrorCode::kUnsupported,
                  source_ + ": byte " + std::to_string(at_) + ": operation " + name +
                      " makes a Python object, and could run code; only numbers, texts, lists and "
                      "dicts are read");
    }
    return Bad("has the unknown operation " + std::to_string(op));
  }

  ByteSource& bytes_;
  const std::string source_;
  const std::function<bool()>& go_on_;
  const PickleLimits limits_;
  PickleTree tree_;
  std::vector<PickleIndex> stack_, memo_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<char> buffer_;
  std::size_t next_ = 0, filled_ = 0;  // in buffer_
  std::uint64_t memo_next_ = 0;
  std::int64_t ops_ = 0, taken_ = 0, at_ = 0, text_bytes_ = 0;
};

Result<PickleTree> ReadPickle(ByteSource& bytes, std::string_view source,
                              const std::function<bool()>& go_on, const PickleLimits& limits) {
  return PickleParser(bytes, source, go_on, limits).Read();
}

}  // namespace foretrain::trace_import
