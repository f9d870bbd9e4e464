// What every module needs of the vendored preact and htm, named in one place.
// `html` makes elements, never markup from text: whatever a name or a reason contains is shown as it is.

export {
  html, render, createContext, useState, useReducer, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext,
} from '../vendor/htm-preact-3.1.1.js';
