#include "base/pickle/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
constexpr std::int64_t kOpsBetweenCalls = 1 << 16;
// Members of a dict that are looked at. Records have about ten; more would make the search in a
// dict that many others share slow.
constexpr std::size_t kMaxSearched = 256;
// Children of an object.
constexpr std::size_t kClassOfObject = 0, kStateOfObject = 1, kArgumentsOfObject = 2;

constexpr std::size_t kMaxName = 4096;  // bytes of a class's name

// Operations that import or call something. Their names are those of Python's pickletools.
struct Call {
  unsigned char code;
  const char* name;
  bool kept;  // where objects are kept
};
constexpr Call kCalls[] = {
    {'c', "GLOBAL", true},      {0x93, "STACK_GLOBAL", true}, {'R', "REDUCE", true},
    {'b', "BUILD", true},       {0x81, "NEWOBJ", true},       {'Q', "BINPERSID", true},
    {0x92, "NEWOBJ_EX", false}, {'i', "INST", false},         {'o', "OBJ", false},
    {0x82, "EXT1", false},      {0x83, "EXT2", false},        {0x84, "EXT4", false},
    {'P', "PERSID", false},     {0x97, "NEXT_BUFFER", false}, {0x98, "READONLY_BUFFER", false},
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

std::string_view PickleTree::Name(PickleIndex value) const {
  const Value& of = values_[value];
  if (of.kind == Kind::kObject) {
    return Name(children_[static_cast<std::size_t>(of.number)][kClassOfObject]);
  }
  if (of.kind != Kind::kName) return {};
  return texts_[static_cast<std::size_t>(of.number)];
}

std::span<const PickleIndex> PickleTree::Items(PickleIndex value) const {
  const Value& of = values_[value];
  if (of.kind == Kind::kObject) {
    return Items(children_[static_cast<std::size_t>(of.number)][kArgumentsOfObject]);
  }
  if (of.kind != Kind::kList) return {};
  return children_[static_cast<std::size_t>(of.number)];
}

std::vector<std::int64_t> PickleTree::Integers(PickleIndex list) const {
  std::vector<std::int64_t> integers;
  for (const PickleIndex item : Items(list)) integers.push_back(Integer(item, -1));
  return integers;
}

std::span<const PickleIndex> PickleTree::Members(PickleIndex value) const {
  const Value& of = values_[value];
  if (of.kind != Kind::kDict) return {};
  return children_[static_cast<std::size_t>(of.number)];
}

PickleIndex PickleTree::State(PickleIndex object) const {
  const Value& of = values_[object];
  if (of.kind != Kind::kObject) return kNoValue;
  return children_[static_cast<std::size_t>(of.number)][kStateOfObject];
}

PickleIndex PickleTree::Find(PickleIndex dict, std::string_view name) const {
  const std::span<const PickleIndex> members =
      Members(kind(dict) == Kind::kObject ? State(dict) : dict);
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
  PickleParser(const ReadBytes& read, std::string_view source, const PickleOptions& options)
      : read_(read), source_(Printable(source, 512)), options_(options) {}

  Result<PickleTree> Read() {
    while (true) {
      if (++ops_ % kOpsBetweenCalls == 0 && options_.go_on && !options_.go_on()) {
        return Fail(ErrorCode::kAborted, source_ + ": reading was stopped");
      }
      at_ = taken_;
      FT_ASSIGN(const std::uint64_t op, Number(1));
      if (op == '.') break;
      FT_TRY(Do(static_cast<unsigned char>(op)));
      if (std::ssize(tree_.values_) > options_.max_values ||
          text_bytes_ > options_.max_text_bytes) {
        return Fail(ErrorCode::kResourceExhausted,
                    source_ + ": more than " + std::to_string(options_.max_values) + " values or " +
                        std::to_string(options_.max_text_bytes) + " bytes of text; " +
                        std::string(options_.if_too_large));
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
        FT_ASSIGN(const std::int64_t read, read_(buffer_));
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
    if (size > static_cast<std::uint64_t>(options_.max_text_bytes)) {
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
        return DoCall(op);
    }
  }

  // A name of a module, class or function, up to the end of the line.
  Result<std::string> Line() {
    std::string line;
    while (true) {
      FT_ASSIGN(const std::uint64_t byte, Number(1));
      if (byte == '\n') return line;
      if (line.size() == kMaxName) return Bad("has a name without an end");
      line.push_back(static_cast<char>(byte));
    }
  }

  Result<void> PushName(std::string name) {
    text_bytes_ += std::ssize(name);
    tree_.texts_.push_back(std::move(name));
    return Push(Kind::kName, std::ssize(tree_.texts_) - 1);
  }

  // An ordered dict is one like any other.
  Result<void> PushObject(PickleIndex made_by, PickleIndex arguments) {
    if (tree_.Name(made_by) == "collections.OrderedDict" && tree_.Items(arguments).empty()) {
      return PushContainer(Kind::kDict);
    }
    return PushContainer(Kind::kObject, {made_by, PickleTree::kNoValue, arguments});
  }

  // Records what Python would make.
  Result<void> DoWithObjects(unsigned char op) {
    switch (op) {
      case 'c': {
        FT_ASSIGN(std::string module, Line());
        FT_ASSIGN(const std::string name, Line());
        return PushName(std::move(module) + "." + name);
      }
      case 0x93: {
        FT_ASSIGN(const std::vector<PickleIndex> texts, Top(2));
        return PushName(std::string(tree_.Text(texts[0])) + "." +
                        std::string(tree_.Text(texts[1])));
      }
      case 'Q': {
        FT_ASSIGN(std::vector<PickleIndex> id, Top(1));
        FT_TRY(PushContainer(Kind::kList, std::move(id)));
        FT_TRY(PushName(std::string(PickleTree::kPersistent)));
        FT_ASSIGN(const std::vector<PickleIndex> made, Top(2));
        return PushObject(made[1], made[0]);
      }
      case 'R':
      case 0x81: {
        FT_ASSIGN(const std::vector<PickleIndex> call, Top(2));
        if (tree_.kind(call[0]) != Kind::kName || tree_.kind(call[1]) != Kind::kList) {
          return Bad("calls something that is no class");
        }
        return PushObject(call[0], call[1]);
      }
      default: {  // BUILD
        FT_ASSIGN(const std::vector<PickleIndex> state, Top(1));
        const std::size_t floor = marks_.empty() ? 0 : marks_.back();
        if (stack_.size() <= floor || tree_.kind(stack_.back()) != Kind::kObject) {
          return Bad("sets fields of something that is no object");
        }
        const PickleTree::Value& object = tree_.values_[stack_.back()];
        tree_.children_[static_cast<std::size_t>(object.number)][kStateOfObject] = state[0];
        return {};
      }
    }
  }

  Result<void> DoCall(unsigned char op) {
    for (const auto& [code, name, kept] : kCalls) {
      if (code != op) continue;
      if (kept && options_.keeps_objects) return DoWithObjects(op);
      return Fail(ErrorCode::kUnsupported,
                  source_ + ": byte " + std::to_string(at_) + ": operation " + name +
                      " makes a Python object, and could run code; only numbers, texts, lists and "
                      "dicts are read");
    }
    return Bad("has the unknown operation " + std::to_string(op));
  }

  const ReadBytes& read_;
  const std::string source_;
  const PickleOptions& options_;
  PickleTree tree_;
  std::vector<PickleIndex> stack_, memo_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<char> buffer_;
  std::size_t next_ = 0, filled_ = 0;  // in buffer_
  std::uint64_t memo_next_ = 0;
  std::int64_t ops_ = 0, taken_ = 0, at_ = 0, text_bytes_ = 0;
};

Result<PickleTree> ReadPickle(const ReadBytes& read, std::string_view source,
                              const PickleOptions& options) {
  return PickleParser(read, source, options).Read();
}

Result<PickleTree> ReadPickle(std::string_view bytes, std::string_view source,
                              const PickleOptions& options) {
  const ReadBytes read = [&bytes](std::span<char> out) -> Result<std::int64_t> {
    const std::size_t size = bytes.copy(out.data(), out.size());
    bytes.remove_prefix(size);
    return static_cast<std::int64_t>(size);
  };
  return ReadPickle(read, source, options);
}

}  // namespace foretrain
