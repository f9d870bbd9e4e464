// Findings in words: what is not as it should be, and what was decided.

export const KINDS = {
  account: 'Stock and ledger disagree', oversold: 'More was given than there is', claim: 'A claim and its coupons disagree',
  limit: 'A user has more than the limit', number_leaked: 'A number is held for nobody', number_missing: 'A number is free that is not',
  request: 'A request at the gate has no end', gate_stock: 'The gate offers another stock', view: 'A user’s list is wrong',
  late: 'Something is overdue',
};

export const STATES = { open: 'Open', repairing: 'Being repaired', repaired: 'Repaired', accepted: 'Accepted', overtaken: 'Overtaken' };
