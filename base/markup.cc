#include "base/markup.h"

#include <limits>

#include "base/text.h"

namespace foretrain {

std::string EscapedMarkup(std::string_view text) {
  std::string out;
  for (const char c : Printable(text, std::numeric_limits<std::size_t>::max())) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace foretrain
